#include "analyzer/bundle/redactor.h"

#include <algorithm>
#include <cctype>
#include <utility>
#include <vector>

#include "analyzer/bundle/addresses.h"
#include "analyzer/bundle/names_in_text.h"
#include "analyzer/bundle/pieces.h"
#include "analyzer/jobs/locate.h"
#include "watchdog/settings/redact.h"

namespace ncclwatch::analyzer {
namespace {

// They say nothing about whose machine this is.
constexpr std::string_view kOfTheSystem[] = {"bin",   "boot", "dev", "etc",  "lib", "lib32",
                                             "lib64", "proc", "run", "sbin", "sys", "usr"};
constexpr std::string_view kCommonRoots[] = {"data", "home", "mnt", "opt", "root", "scratch", "srv", "tmp", "var"};
constexpr std::size_t kLongestExtension = 5;
constexpr std::string_view kCommandLine = "command: ";
constexpr std::string_view kState = "\n\nName:\t";
constexpr std::size_t kMostDigits = 8;  // of a host's number
constexpr int kMostParts = 16;          // of what has been learned

std::vector<std::string_view> Split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(at);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string_view WithoutDots(std::string_view word) {
  while (word.ends_with('.')) word.remove_suffix(1);
  return word;
}

std::size_t EndOfPart(std::string_view word, std::size_t at) {
  while (at < word.size() && word[at] != '.' && word[at] != '-' && word[at] != '_' && word[at] != '/') ++at;
  return at;
}

// "x.py", not "3.11".
bool HasExtension(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return dot != std::string_view::npos && dot > 0 && name.size() - dot - 1 <= kLongestExtension &&
         dot + 1 < name.size() &&
         std::all_of(name.begin() + static_cast<std::ptrdiff_t>(dot) + 1, name.end(), IsLetter);
}

// "train_v2", "x.py", and not "main", which is a function as well.
bool LooksLikeName(std::string_view name) {
  return name != "x86_64" && name != "aarch64" && std::any_of(name.begin(), name.end(), IsLetter) &&
         !std::all_of(name.begin(), name.end(), IsLetter);
}

void Hide(std::size_t from, std::size_t to, std::string* text) {
  for (std::size_t i = from; i < to; ++i)
    if ((*text)[i] != ' ') (*text)[i] = 'x';
}

// A snapshot of a process (watchdog/evidence) has its command, which may have several lines, before its state.
std::string WithoutArguments(std::string text) {
  std::size_t state = text.starts_with(kState) ? 0 : text.find(kState);
  for (std::size_t at = 0; at < text.size(); at = std::min(text.find('\n', at), text.size() - 1) + 1) {
    if (text.compare(at, kCommandLine.size(), kCommandLine) != 0) continue;
    if (state < at) state = text.find(kState, at);
    const std::size_t end = std::min(state != std::string::npos ? state : text.find('\n', at), text.size());
    Hide(text.find(' ', at + kCommandLine.size()), end, &text);
  }
  return text;
}

}  // namespace

Redactor::Redactor(std::string secret_names) : secret_names_(std::move(secret_names)) {}

void Redactor::LearnHost(std::string_view name) {
  name = WithoutDots(name);
  if (name.empty() || name == "localhost" || IsIpv4(name)) return;
  const std::size_t dot = name.find('.');
  const std::string_view domain = dot == std::string_view::npos ? std::string_view() : name.substr(dot + 1);
  const std::string host = Substitute(name.substr(0, dot), 'h');
  LearnFamily(name.substr(0, dot));
  if (!domain.empty()) substitutes_.Put(name, host + "." + Substitute(domain, 'd'));
}

// node17 comes with node18, and with node9 unless numbers have leading zeroes; not with node170.
void Redactor::LearnFamily(std::string_view host) {
  const std::string family(FamilyOf(host));
  if (family.empty()) return;
  const std::size_t digits = host.size() - family.size();
  for (const std::size_t other : {digits, digits == 1 ? 2 : host[family.size()] == '0' ? digits : digits - 1})
    families_.Put(family + std::string(other, '0'), "");
}

void Redactor::LearnUser(std::string_view name) {
  if (!name.empty() && name != "root") Substitute(name, 'u');
}

void Redactor::Learn(std::string_view text) {
  const NamesInText names = FindNames(text);
  for (const std::string& host : names.hosts) LearnHost(host);
  for (const std::string& user : names.users) LearnUser(user);
  Pieces pieces(text);
  for (Piece piece = pieces.Next(); piece.kind != Piece::Kind::kNone; piece = pieces.Next()) {
    if (piece.kind == Piece::Kind::kPath) Path(piece.text);
    if (piece.kind == Piece::Kind::kUrlHost) UrlHost(piece.text);
    if (piece.kind == Piece::Kind::kWord && piece.dots > 0 && IsHostWithDomain(WithoutDots(piece.text)))
      LearnHost(piece.text);
  }
}

void Redactor::Keep(std::string_view file) {
  std::string kept;
  Word(file, false, &kept);
  substitutes_.Put(file, kept);
}

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

// "h000012": of that length, and no other word's while there is room. It stands for itself from now on.
std::string Redactor::Make(std::size_t length, char kind, std::string_view ending) {
  constexpr int kMostTries = 64;
  std::string made;
  for (int i = 0; i < kMostTries; ++i) {
    made.assign(length, '0');
    unsigned number = ++given_[length];
    for (std::size_t at = length; at-- > 0 && number > 0; number /= 36)
      made[at] = "0123456789abcdefghijklmnopqrstuvwxyz"[number % 36];
    if (length > 1) made[0] = kind;
    made += ending;
    if (substitutes_.Find(made) == nullptr && folders_.Find(made) == nullptr) break;
  }
  return made;
}

std::string Redactor::Substitute(std::string_view word, char kind, std::size_t kept) {
  if (const std::string* const known = substitutes_.Find(word)) return *known;
  const std::string made = Make(word.size() - kept, kind, word.substr(word.size() - kept));
  substitutes_.Put(word, made);
  substitutes_.Put(made, made);
  return made;
}

std::string Redactor::Folder(std::string_view name) {
  if (name.empty() || name == "." || name == ".." || IsNested(name)) return std::string(name);
  if (const std::string* const known = substitutes_.Find(name)) return *known;
  if (const std::string* const known = folders_.Find(name)) return *known;
  const std::string made = Make(name.size(), 'p', "");
  folders_.Put(made, made);
  folders_.Put(name, made);
  return made;
}

// Its ending stays. The name is known from now on where it stands alone, unless it may be any word.
std::string Redactor::File(std::string_view name) {
  const std::string* const folder = folders_.Find(name);
  if (!LooksLikeName(name) || IsNested(name) || (folder && *folder == name)) return Folder(name);
  return Substitute(name, 'f', HasExtension(name) ? name.size() - name.rfind('.') : 0);
}

std::string Redactor::Path(std::string_view path) {
  const std::vector<std::string_view> parts = Split(path, '/');  // the first is empty
  const bool in_memory = path.starts_with("/dev/shm/");
  if (!in_memory && IsOneOf(parts[1], kOfTheSystem)) {
    std::string same;
    Word(path, false, &same);
    return same;
  }
  std::string made;
  bool known = false;  // of a Python package, which many have
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const std::string_view part = parts[i].substr(0, parts[i].find('+'));
    known = known || part == "site-packages" || part == "dist-packages" || part == "csrc";
    const bool last = i + 1 == parts.size(),
               library = part.starts_with("lib") && part.find(".so") != std::string_view::npos;
    const bool root = (i == 1 && IsOneOf(part, kCommonRoots)) || (i <= 2 && in_memory);
    made += "/" + (known || root || (last && library) ? std::string(part) : last ? File(part) : Folder(part));
    made += parts[i].substr(part.size());
  }
  return made;
}

// Its signs stay, and numbers stand for its digits.
std::string Redactor::Address(std::string_view address) {
  if (address.starts_with("127.") || address == "0.0.0.0" || address == "255.255.255.255") return std::string(address);
  if (const std::string* const known = substitutes_.Find(address)) return *known;
  std::string made(address);
  unsigned number = ++given_[0];
  for (std::size_t i = made.size(); i-- > 0;) {
    if (made[i] == '.' || made[i] == ':' || made[i] == '-') continue;
    made[i] = static_cast<char>('0' + number % 10);
    number /= 10;
  }
  substitutes_.Put(address, made);
  substitutes_.Put(made, made);
  return made;
}

// A host that is called like another one but for its number.
bool Redactor::IsOfFamily(std::string_view part) const {
  if (part.empty() || part.back() < '0' || part.back() > '9') return false;
  const std::size_t digits = part.find_last_not_of("0123456789") + 1;
  if (digits == 0 || part.size() - digits > kMostDigits) return false;
  std::string numbered(part);
  std::fill(numbered.begin() + static_cast<std::ptrdiff_t>(digits), numbered.end(), '0');
  return families_.Find(numbered) != nullptr;
}

// The longest that begins at `at` and is known, or is an address, with its end. Nothing: it stays.
std::optional<std::string> Redactor::Substituted(std::string_view word, std::size_t at, bool may_be_address,
                                                 std::size_t* end) {
  std::optional<std::string> found;
  std::size_t to = EndOfPart(word, at);
  for (int parts = 0; parts < kMostParts; ++parts) {
    const std::string_view longer = word.substr(at, to - at);
    if (const std::string* const known = substitutes_.Find(longer))
      found = *known, *end = to;
    else if (parts == 3 && may_be_address && IsIpv4(longer))
      found = Address(longer), *end = to;
    else if ((parts == 4 && IsNamedByAddress(longer)) || IsOfFamily(longer))
      found = Substitute(longer, 'h'), *end = to;
    if (to == word.size()) break;
    to = EndOfPart(word, to + 1);
  }
  return found;
}

// Of letters, digits, `_`, `-` and `.`: what has been learned, alone or between two of these signs, the longest first.
void Redactor::Word(std::string_view word, bool may_be_address, std::string* made) {
  for (std::size_t at = 0; at < word.size();) {
    std::size_t end = EndOfPart(word, at);
    const char first = word[at];
    const bool may_begin = substitutes_.MayBegin(first) || families_.MayBegin(first) || first == 'i' ||
                           (may_be_address && first >= '0' && first <= '9');
    if (const auto other = may_begin ? Substituted(word, at, may_be_address, &end) : std::nullopt)
      made->append(*other);
    else
      made->append(word, at, end - at);
    if (end < word.size()) made->push_back(word[end]);
    at = end + 1;
  }
}

void Redactor::Word(const Piece& piece, std::string_view text, std::string* made) {
  const std::string_view name = WithoutDots(piece.text);
  if (IsMacWithDashes(name)) {
    made->append(Address(name)).append(piece.text.substr(name.size()));
    return;
  }
  if (piece.dots > 0 && IsHostWithDomain(name)) LearnHost(name);
  Word(piece.text, piece.dots >= 3 && !FollowsVersion(text, piece.at), made);
}

// The host of a URL, whatever its name; in the text around only what can be no other word.
std::string Redactor::UrlHost(std::string_view name) {
  const bool known = name == "localhost" || IsIpv4(name) || IsPublicSite(name) || substitutes_.Find(name) != nullptr;
  if (!known && (folders_.Find(name) != nullptr || name.find_first_of("0123456789-.") == std::string_view::npos))
    return Folder(name);
  if (!known) LearnHost(name);
  std::string made;
  Word(name, true, &made);
  return made;
}

std::string Redactor::Text(std::string_view given) {
  std::string hidden = WithoutArguments(std::string(given));
  settings::HideSecrets(hidden.data(), hidden.size(), secret_names_);
  std::string made;
  made.reserve(hidden.size());
  Pieces pieces(hidden);
  for (Piece piece = pieces.Next(); piece.kind != Piece::Kind::kNone; piece = pieces.Next()) {
    const std::string_view text = piece.text;
    switch (piece.kind) {
      case Piece::Kind::kWord: Word(piece, hidden, &made); break;
      case Piece::Kind::kPath: made += Path(text); break;
      case Piece::Kind::kAddress: made += Address(text); break;
      case Piece::Kind::kUrlHost: made += UrlHost(text); break;
      case Piece::Kind::kMail: {
        const std::size_t name = text.size() - piece.domain.size() - 1;
        made.append(Folder(text.substr(0, name))).append("@").append(Substitute(piece.domain, 'd'));
        break;
      }
      default: made += text;
    }
  }
  return made;
}

}  // namespace ncclwatch::analyzer
