#include "analyzer/bundle/redactor.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace ncclwatch::analyzer {
namespace {

using Json = nlohmann::ordered_json;

// They say nothing about whose machine this is.
constexpr std::string_view kOfTheSystem[] = {"bin",   "boot", "dev", "etc",  "lib", "lib32",
                                             "lib64", "proc", "run", "sbin", "sys", "usr"};
constexpr std::string_view kCommonRoots[] = {"data", "home", "mnt", "opt", "root", "scratch", "srv", "tmp", "var"};
constexpr std::size_t kLongestExtension = 5;
constexpr std::string_view kCommandLine = "command: ";
constexpr std::string_view kState = "\n\nName:\t";
constexpr std::string_view kBetween = ".-_/";  // parts of a word, or of a path
constexpr int kMostParts = 16;                 // of what has been learned

template <std::size_t N>
bool IsOneOf(std::string_view word, const std::string_view (&words)[N]) {
  return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

std::vector<std::string_view> Split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(at);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

bool IsLetter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }
bool IsOfWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.'; }
bool EndsPath(char c) {
  return static_cast<unsigned char>(c) <= ' ' || c == '\x7f' ||
         std::string_view("\"'`<>|;:,()[]{}=*?!&").find(c) != std::string_view::npos;
}

bool IsAddress(std::string_view word) {
  const std::vector<std::string_view> parts = Split(word, '.');
  return parts.size() == 4 && std::all_of(parts.begin(), parts.end(), [](std::string_view part) {
           return !part.empty() && part.size() <= 3 &&
                  std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
         });
}

std::string_view WithoutDots(std::string_view word) {
  while (word.ends_with('.')) word.remove_suffix(1);
  return word;
}

// "x.py", not "3.11".
bool HasExtension(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return dot != std::string_view::npos && dot > 0 && name.size() - dot - 1 <= kLongestExtension &&
         dot + 1 < name.size() &&
         std::all_of(name.begin() + static_cast<std::ptrdiff_t>(dot) + 1, name.end(), IsLetter);
}

// "train_v2", "x.py", and not "main", which is a function as well.
bool LooksLikeName(std::string_view name) { return !std::all_of(name.begin(), name.end(), IsLetter); }

// "and/or", "3/8" and "https://host" begin none. Of several slashes in a row the last one does.
bool BeginsPath(std::string_view text, std::size_t at) {
  if (text[at] != '/' || at + 1 == text.size() || text[at + 1] == '/' || EndsPath(text[at + 1])) return false;
  std::size_t first = at;
  while (first > 0 && text[first - 1] == '/') --first;
  if (first == 0) return true;
  return !IsOfWord(text[first - 1]) && !(text[first - 1] == ':' && at - first == 1);
}

void Hide(std::size_t from, std::size_t to, std::string* text) {
  for (std::size_t i = from; i < to; ++i)
    if ((*text)[i] != ' ') (*text)[i] = 'x';
}

// A snapshot of a process (watchdog/evidence) has its command, which may have several lines, before its state.
std::string WithoutArguments(std::string text) {
  for (std::size_t at = 0; at < text.size(); at = std::min(text.find('\n', at), text.size() - 1) + 1) {
    if (text.compare(at, kCommandLine.size(), kCommandLine) != 0) continue;
    const std::size_t state = text.find(kState, at), line = text.find('\n', at);
    const std::size_t end = std::min(state != std::string::npos ? state : line, text.size());
    Hide(text.find(' ', at + kCommandLine.size()), end, &text);
  }
  return text;
}

void OfStrings(Json* value, const std::function<std::string(std::string_view)>& change) {
  if (value->is_string()) *value = change(value->get_ref<const std::string&>());
  if (!value->is_structured()) return;
  for (auto& item : *value) OfStrings(&item, change);
}

}  // namespace

void Redactor::LearnHost(std::string_view name) {
  name = WithoutDots(name);
  if (name.empty() || name == "localhost" || IsAddress(name)) return;
  const std::size_t dot = name.find('.');
  const std::string_view domain = dot == std::string_view::npos ? std::string_view() : name.substr(dot + 1);
  const std::string host = Substitute(name.substr(0, dot), 'h');
  if (domain.empty()) return;
  substitutes_.emplace(name, host + "." + Substitute(domain, 'd'));
}

void Redactor::LearnUser(std::string_view name) {
  if (!name.empty() && name != "root") Substitute(name, 'u');
}

void Redactor::Keep(std::string_view file) { substitutes_.emplace(file, Word(file)); }

void Redactor::LearnCommand(std::string_view command) {
  for (std::string_view word : Split(command.substr(std::min(command.find(' '), command.size())), ' ')) {
    word = word.substr(word.rfind('/') + 1);
    if (HasExtension(word)) File(word);
  }
}

std::string Redactor::Command(std::string_view command) {
  std::string text(command.substr(0, command.find('\0')));
  Hide(text.find(' '), text.size(), &text);
  return Text(text).append(command.size() - text.size(), '\0');
}

// "h000012": of that length, and no other word's while there is room.
std::string Redactor::Make(std::size_t length, char kind) {
  std::string made(length, '0');
  unsigned number = ++given_[length];
  for (std::size_t i = length; i-- > 0 && number > 0; number /= 36)
    made[i] = "0123456789abcdefghijklmnopqrstuvwxyz"[number % 36];
  if (length > 1) made[0] = kind;
  return made;
}

std::string Redactor::Substitute(std::string_view word, char kind) {
  if (const auto known = substitutes_.find(word); known != substitutes_.end()) return known->second;
  return substitutes_.emplace(word, Make(word.size(), kind)).first->second;
}

std::string Redactor::Folder(std::string_view name) {
  if (name.empty() || name == "." || name == "..") return std::string(name);
  if (const auto known = folders_.find(name); known != folders_.end()) return known->second;
  return folders_.emplace(name, Make(name.size(), 'p')).first->second;
}

// Its ending stays. The name is known from now on where it stands alone, unless it may be any word.
std::string Redactor::File(std::string_view name) {
  if (!LooksLikeName(name)) return Folder(name);
  if (const auto known = substitutes_.find(name); known != substitutes_.end()) return known->second;
  const std::size_t dot = HasExtension(name) ? name.rfind('.') : name.size();
  return substitutes_.emplace(name, Make(dot, 'f') + std::string(name.substr(dot))).first->second;
}

std::string Redactor::Path(std::string_view path) {
  const std::vector<std::string_view> parts = Split(path, '/');  // the first is empty
  const bool in_memory = path.starts_with("/dev/shm/");
  if (!in_memory && IsOneOf(parts[1], kOfTheSystem)) return "/" + Word(path.substr(1));
  std::string made;
  bool known = false;  // of a Python package, which many have
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const std::string_view part = parts[i].substr(0, parts[i].find('+'));
    known = known || part == "site-packages" || part == "dist-packages";
    const bool last = i + 1 == parts.size(),
               library = part.starts_with("lib") && part.find(".so") != std::string_view::npos;
    const bool root = (i == 1 && IsOneOf(part, kCommonRoots)) || (i <= 2 && in_memory);
    made += "/" + (known || root || (last && library) ? std::string(part) : last ? File(part) : Folder(part));
    made += parts[i].substr(part.size());
  }
  return made;
}

std::string Redactor::Address(std::string_view address) {
  if (address.starts_with("127.") || address == "0.0.0.0") return std::string(address);
  if (const auto known = substitutes_.find(address); known != substitutes_.end()) return known->second;
  std::string made(address);
  unsigned number = ++given_[0];
  for (std::size_t i = made.size(); i-- > 0;) {
    if (made[i] == '.') continue;
    made[i] = static_cast<char>('0' + number % 10);
    number /= 10;
  }
  return substitutes_.emplace(address, made).first->second;
}

// Of letters, digits, `_`, `-` and `.`: what has been learned, alone or between two of these signs, the longest first.
std::string Redactor::Word(std::string_view word) {
  std::string made;
  for (std::size_t at = 0; at < word.size();) {
    std::size_t end = std::min(word.find_first_of(kBetween, at), word.size());
    std::string part(word.substr(at, end - at));
    std::size_t to = end;
    for (int parts = 0; parts < kMostParts; ++parts) {
      const std::string_view longer = word.substr(at, to - at);
      const auto known = substitutes_.find(longer);
      const bool address = known == substitutes_.end() && parts == 3 && IsAddress(longer);
      if (address || known != substitutes_.end()) end = to, part = address ? Address(longer) : known->second;
      if (to == word.size()) break;
      to = std::min(word.find_first_of(kBetween, to + 1), word.size());
    }
    made += part;
    if (end < word.size()) made += word[end];
    at = end + 1;
  }
  return made;
}

std::string Redactor::Text(std::string_view text) {
  const std::string without = WithoutArguments(std::string(text));
  std::string made;
  made.reserve(without.size());
  for (std::size_t at = 0; at < without.size();) {
    std::size_t end = at + 1;
    if (BeginsPath(without, at)) {
      while (end < without.size() && !EndsPath(without[end])) ++end;
      made += Path(std::string_view(without).substr(at, end - at));
    } else if (IsOfWord(without[at])) {
      while (end < without.size() && IsOfWord(without[end])) ++end;
      made += Word(std::string_view(without).substr(at, end - at));
    } else {
      made += without[at];
    }
    at = end;
  }
  return made;
}

std::string Redactor::Json(std::string_view document) {
  auto read = nlohmann::ordered_json::parse(document, nullptr, /*allow_exceptions=*/false);
  if (read.is_discarded()) return Text(document);
  OfStrings(&read, [this](std::string_view text) { return Text(text); });
  return read.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string Redactor::JsonLines(std::string_view lines) {
  std::string made;
  for (const std::string_view line : Split(lines, '\n')) {
    if (line.empty()) continue;
    auto read = nlohmann::ordered_json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (read.is_discarded()) {
      made += Text(line);
    } else {
      OfStrings(&read, [this](std::string_view text) { return Text(text); });
      made += read.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
    }
    made += '\n';
  }
  return made;
}

}  // namespace ncclwatch::analyzer
