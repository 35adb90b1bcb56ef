#include "watchdog/settings/secret_scan.h"

#include <algorithm>
#include <array>

#include "watchdog/settings/words.h"

namespace ncclwatch::settings {
namespace {

// Bounds of what is looked at in vain, so that the time stays linear whatever the text.
constexpr std::size_t kLongestName = 128;
constexpr std::size_t kMostBlanks = 32;
constexpr std::size_t kMostSlashes = 4;
constexpr std::size_t kMostDoubtful = 64;
constexpr std::size_t kMostInBrackets = 4096;

bool IsLarge(char c) { return c >= 'A' && c <= 'Z'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetter(char c) { return IsLarge(c) || (c >= 'a' && c <= 'z'); }
bool IsOfName(char c) { return IsLetter(c) || IsDigit(c) || c == '_' || c == '-' || c == '.'; }
bool IsOfNameOrHidden(char c) { return IsOfName(c) || c == '*'; }
bool IsBlank(char c) { return c == ' ' || c == '\t'; }
bool IsQuote(char c) { return c == '"' || c == '\'' || c == '`'; }
bool EndsWord(char c) { return c == '\0' || c == '\n' || c == '\r' || IsBlank(c); }
bool IsOneOf(char c, std::string_view letters) { return letters.find(c) != std::string_view::npos; }

bool IsNumber(std::string_view text) {
  return text.find_first_not_of("0123456789.,+-eE%") == std::string_view::npos &&
         std::any_of(text.begin(), text.end(), IsDigit);
}

// What programs print where nothing was given.
bool IsNothing(std::string_view text) {
  constexpr std::array<std::string_view, 6> kNothing{"none", "null", "nil", "true", "false", "unset"};
  return text.empty() || std::any_of(kNothing.begin(), kNothing.end(), [&](auto word) { return Same(word, text); });
}

// A_NAME of a variable.
bool IsOfEnvironment(std::string_view name) {
  return name.size() >= 3 && std::any_of(name.begin(), name.end(), IsLarge) &&
         std::all_of(name.begin(), name.end(), [](char c) { return IsLarge(c) || IsDigit(c) || c == '_'; });
}

// Which letters anything but a token begins with.
constexpr auto kMarks = [] {
  std::array<bool, 256> marks{};
  for (const char c : {':', '=', '%', '-', '.', 'Q'}) marks[static_cast<unsigned char>(c)] = true;
  return marks;
}();

}  // namespace

SecretScan::SecretScan(std::string_view text, std::string_view more) noexcept
    : text_(text), more_(more), divided_(text.find('\0') != std::string_view::npos) {}

Span SecretScan::Next() noexcept {
  for (; at_ < text_.size(); ++at_) {
    if (!kMarks[static_cast<unsigned char>(text_[at_])] && !MayBeginToken(text_, at_)) continue;
    Span found = At();
    found.begin = std::max(found.begin, floor_);
    if (found.end <= found.begin) continue;
    at_ = floor_ = found.end;
    return found;
  }
  return {};
}

Span SecretScan::At() {
  const std::string_view fresh = text_.substr(floor_);
  if (const Span token = TokenAt(fresh, at_ - floor_); !token.empty())
    return {token.begin + floor_, token.end + floor_};
  if (!kMarks[static_cast<unsigned char>(text_[at_])]) return {};
  if (const Span token = TokenAround(fresh, at_ - floor_); !token.empty())
    return {token.begin + floor_, token.end + floor_};
  switch (text_[at_]) {
    case ':': return Look(at_ + 1) == '/' && Look(at_ + 2) == '/' ? Url() : Assigned();
    case '=':
    case '%': return Assigned();
    case '.': return Dotted();
    case '-': return Look(at_ + 1) == '-' && text_.compare(at_, 10, "-----BEGIN") == 0 ? PrivateKey() : Option();
    default: return {};
  }
}

std::size_t SecretScan::End(std::size_t at, bool (*ends)(char)) const {
  while (at < text_.size() && !ends(text_[at])) ++at;
  return at;
}

std::size_t SecretScan::SkipBlanks(std::size_t at) const {
  const std::size_t most = at + kMostBlanks;
  while (at < most && IsBlank(Look(at))) ++at;
  return at;
}

// Where the name begins that ends there; `end`: there is none.
std::size_t SecretScan::NameBefore(std::size_t end) const {
  std::size_t begin = end;
  while (begin > floor_ && end - begin < kLongestName && IsOfName(text_[begin - 1])) --begin;
  return begin;
}

std::size_t SecretScan::EndOfWord(std::size_t at) const {
  return End(
      at, divided_ ? +[](char c) { return c == '\0'; } : +[](char c) { return EndsWord(c) || IsQuote(c); });
}

// User and password.
Span SecretScan::Url() const {
  const std::size_t begin = at_ + 3;
  std::size_t end = begin, user_end = begin;
  for (; end < text_.size() && !EndsWord(text_[end]) && !IsQuote(text_[end]); ++end) {
    if (IsOneOf(text_[end], "/?#")) break;
    if (text_[end] == '@') user_end = end;
  }
  return {begin, user_end};
}

// `name=value`, `name: value`, `"name": "value"`, `['name'] = value`, `name%3Dvalue`.
Span SecretScan::Assigned() const {
  std::size_t sign = 1;
  if (text_[at_] == '%') {
    if (text_.compare(at_, 3, "%3D") != 0 && text_.compare(at_, 3, "%3d") != 0) return {};
    sign = 3;
  }
  if (text_[at_] == ':' && (Look(at_ + 1) == ':' || Before(at_) == ':')) return {};
  std::size_t end = at_;
  while (end > floor_ && at_ - end < kMostBlanks && IsBlank(text_[end - 1])) --end;
  const bool spaced = end < at_;
  for (std::size_t signs = 0; signs < 2 && text_[at_] == '=' && IsOneOf(Before(end), ":?+"); ++signs) --end;
  while (end > floor_ && at_ - end < kMostBlanks && IsBlank(text_[end - 1])) --end;
  if (Before(end) == ']') --end;
  if (IsQuote(Before(end))) --end;
  for (std::size_t slashes = 0; slashes < kMostSlashes && Before(end) == '\\'; ++slashes) --end;
  std::size_t begin = NameBefore(end);
  if (begin == end) return {};

  bool parameter = IsOneOf(Before(begin), "?&") || (begin >= floor_ + 5 && text_.compare(begin - 5, 5, "&amp;") == 0);
  if (Before(begin) == '\\' && text_.compare(begin, 5, "u0026") == 0) begin += 5, parameter = true;
  if (Before(begin) == '\\' && IsOneOf(text_[begin], "nrt")) ++begin;
  if (Before(begin) == '%' && end - begin > 2) begin += 2, parameter = true;
  const std::string_view name = Part(begin, std::max(begin, end));
  const SecretName kind = KindOfName(name, more_);
  if (kind == SecretName::kNo) return {};
  std::size_t to = at_ + sign;
  while (to < at_ + 3 && (Look(to) == '=' || Look(to) == '>')) ++to;
  if (text_[at_] == ':' || spaced) to = SkipBlanks(to);
  const bool whole = BeginsArgument(begin);
  const bool strict = whole || parameter || name.starts_with('-') || (text_[at_] != ':' && IsOfEnvironment(name));
  return Find({to, kind, strict, whole, parameter});
}

// `name ......... value` of Megatron-LM.
Span SecretScan::Dotted() {
  if (!IsBlank(Before(at_)) || text_.compare(at_, 3, "...") != 0) return {};
  std::size_t end = at_;
  while (end > floor_ && at_ - end < kMostBlanks && IsBlank(text_[end - 1])) --end;
  const std::size_t begin = NameBefore(end);
  const std::size_t to = End(at_, [](char c) { return c != '.'; });
  const SecretName kind = KindOfName(Part(begin, end), more_);
  if (kind == SecretName::kNo || !IsBlank(Look(to))) return at_ = to - 1, Span{};
  return Find({SkipBlanks(to), kind, false, false});
}

// `--name value`, and the words of a list: `'--name', 'value'`.
Span SecretScan::Option() {
  const char before = Before(at_);
  if (at_ != 0 && !EndsWord(before) && !IsQuote(before) && !IsOneOf(before, "([{,")) return {};
  const std::size_t end = End(at_, [](char c) { return !IsOfName(c); });
  const std::string_view name = Part(at_, end);
  if (const Span found = OfProgram(name, end); !found.empty()) return found;
  const char sign = Look(end);
  if (end >= text_.size() || (!EndsWord(sign) && !IsQuote(sign))) return {};
  const SecretName kind = KindOfName(name, more_);
  if (kind == SecretName::kNo) return {};
  std::size_t to = end + 1;
  if (IsQuote(sign)) {
    to = SkipBlanks(Look(to) == ',' ? to + 1 : to);
    if (before != sign || !IsQuote(Look(to))) return {};
  } else if (IsBlank(sign)) {
    to = SkipBlanks(to);
  }
  if (Look(to) == '-') return {};
  return Find({to, kind, true, BeginsArgument(to)});
}

// What a few programs take as a password behind a letter.
Span SecretScan::OfProgram(std::string_view flag, std::size_t end) {
  struct Row {
    std::string_view program, flag;
    bool apart;  // the password may be the next word
  };
  static constexpr Row kRows[] = {{"curl", "-u", true},           {"curl", "--user", true},  {"curl", "-U", true},
                                  {"curl", "--proxy-user", true}, {"sshpass", "-p", true},   {"mysql", "-p", false},
                                  {"mysqldump", "-p", false},     {"redis-cli", "-a", true}, {"login", "-p", true},
                                  {"ldapsearch", "-w", true},     {"mongosh", "-p", true},   {"mongo", "-p", true}};
  const auto fits = [&](const Row& row) {
    return flag == row.flag || (row.flag.size() == 2 && flag.starts_with(row.flag) && !flag.starts_with("--"));
  };
  if (std::none_of(std::begin(kRows), std::end(kRows), fits)) return {};
  const std::size_t divider = Part(searched_, at_).find_last_of("\n;|&");
  const std::size_t from = divider == std::string_view::npos ? searched_ : searched_ + divider + 1;
  if (from > searched_) program_ = {};
  std::size_t last = 0;
  for (const Row& row : kRows) {
    const std::size_t found = Part(from, at_).rfind(row.program);
    if (found == std::string_view::npos || found + 1 <= last) continue;
    const std::size_t begin = from + found, behind = begin + row.program.size();
    if ((begin > 0 && IsOfNameOrHidden(text_[begin - 1])) || IsOfName(text_[behind])) continue;
    last = found + 1;
    program_ = row.program;
  }
  searched_ = at_;
  for (const Row& row : kRows) {
    if (row.program != program_ || !fits(row)) continue;
    if (flag.size() > row.flag.size() || Look(end) == ':') return {at_ + row.flag.size(), EndOfWord(at_)};
    if (Look(end) == '=' || (row.apart && EndsWord(Look(end)) && end < text_.size())) {
      const std::size_t to = IsBlank(Look(end)) ? SkipBlanks(end) : end + 1;
      return Find({to, SecretName::kYes, true, BeginsArgument(to)});
    }
  }
  return {};
}

// Up to its end mark, or as far as it may go.
Span SecretScan::PrivateKey() {
  constexpr std::size_t kLongestKind = 64;
  const std::string_view line = text_.substr(at_ + 10, kLongestKind);
  const std::size_t kind = line.find("PRIVATE KEY"), dashes = line.find("-----");
  if (kind == std::string_view::npos || dashes == std::string_view::npos || dashes < kind) return {};
  const std::size_t begin = at_ + 10 + dashes + 5;
  if (end_mark_ < begin) end_mark_ = std::min(text_.find("-----END", begin), text_.size());
  constexpr std::size_t kLongestKey = 16 << 10;
  if (end_mark_ < text_.size() && end_mark_ - begin <= kLongestKey)
    return {begin, std::min(end_mark_, text_.find('\0', begin))};
  return {begin, End(begin, [](char c) {
            return c == '\0' || (!IsLetter(c) && !IsDigit(c) && !EndsWord(c) && !IsOneOf(c, "+/=\\:,-*"));
          })};
}

Span SecretScan::Find(const Value& value) const {
  std::size_t quote = value.begin;
  if (IsLetter(Look(quote)) && IsQuote(Look(quote + 1))) ++quote;  // b'...'
  std::size_t slashes = 0;
  while (slashes < kMostSlashes && Look(quote + slashes) == '\\') ++slashes;
  if (IsQuote(Look(quote + slashes)) && !value.whole) return Quoted(value, slashes, quote + slashes);
  if (value.whole) {
    const Span all{value.begin, End(value.begin, [](char c) { return c == '\0'; })};
    return IsSecret(value, Part(all.begin, all.end)) ? all : Span{};
  }
  if (value.kind == SecretName::kSentence) return Sentence(value.begin);
  if (const Span bracket = Bracket(value); !bracket.empty()) return bracket;
  return Bare(value);
}

bool SecretScan::IsSecret(const Value& value, std::string_view text) {
  if (IsNothing(text)) return false;
  if (value.strict) return true;
  if (IsDoubtful(value)) return LooksRandom(text);
  return value.kind != SecretName::kToken || !IsNumber(text);
}

bool SecretScan::IsDoubtful(const Value& value) { return value.kind == SecretName::kPerhaps && !value.strict; }

SecretScan::Value SecretScan::Sure(Value value) {
  value.strict = true;
  return value;
}

std::size_t SecretScan::Most(const Value& value, std::size_t begin) const {
  return IsDoubtful(value) ? std::min(text_.size(), begin + kMostDoubtful) : text_.size();
}

// Ends at the sign that began it, with as many backslashes before it.
Span SecretScan::Quoted(const Value& value, std::size_t slashes, std::size_t quote) const {
  const std::size_t begin = quote + 1, most = Most(value, begin);
  std::size_t end = begin;
  while (end < most && text_[end] != '\0' && (divided_ || text_[end] != '\n') && text_[end] != text_[quote]) {
    if (text_[end] != '\\') {
      ++end;
      continue;
    }
    const std::size_t behind = std::min(most, text_.find_first_not_of('\\', end));
    if (Look(behind) == text_[quote] && behind - end <= slashes && slashes > 0) break;
    end = std::min(most, Look(behind) == text_[quote] && (behind - end) % 2 == 1 ? behind + 1 : behind);
  }
  if (!IsSecret(value, Part(begin, end))) return {};
  return IsDoubtful(value) ? Quoted(Sure(value), slashes, quote) : Span{begin, end};
}

bool SecretScan::EndsBare(std::size_t at, const Value& value) const {
  const char c = text_[at];
  if (EndsWord(c) || IsQuote(c) || IsOneOf(c, ";&|<")) return true;
  if (c == '\\') return IsQuote(Look(at + 1)) || text_.compare(at, 6, "\\u0026") == 0;
  if (c == '%') return value.parameter && text_.compare(at, 3, "%26") == 0;
  if (c != ',') return false;
  const std::size_t most = std::min(text_.size(), at + 1 + kLongestName);
  std::size_t name = at + 1;  // the next one of a list
  while (name < most && IsOfNameOrHidden(text_[name])) ++name;
  return name > at + 1 && (Look(name) == '=' || Look(name) == ':');
}

Span SecretScan::Bare(const Value& value) const {
  const std::size_t begin = value.begin, most = Most(value, begin);
  std::size_t end = begin;
  while (end < most && !EndsBare(end, value)) ++end;
  if (end > begin && IsQuote(Look(end)) && text_[end - 1] == '(') return Quoted(value, 0, end);  // SecretStr('x')
  while (end > begin && IsOneOf(text_[end - 1], ",)}]>")) --end;
  if (!IsSecret(value, Part(begin, end))) return {};
  return IsDoubtful(value) ? Bare(Sure(value)) : Span{begin, end};
}

// Of `Authorization`, with or without its scheme; of others to the end.
Span SecretScan::Sentence(std::size_t begin) const {
  const auto ends_line = [](char c) { return c == '\0' || c == '\n' || c == '\r' || IsQuote(c); };
  const std::size_t word = End(begin, [](char c) { return EndsWord(c) || IsQuote(c); });
  const std::string_view scheme = Part(begin, word);
  if (scheme.find('=') != std::string_view::npos) return {begin, End(begin, ends_line)};
  for (const std::string_view many : {"digest", "aws4-hmac-sha256", "negotiate", "oauth", "hawk"})
    if (Same(scheme, many)) return {begin, End(begin, ends_line)};
  for (const std::string_view one : {"bearer", "basic", "token", "apikey"})
    if (Same(scheme, one) && IsBlank(Look(word)))
      return {begin, End(SkipBlanks(word), [](char c) { return EndsWord(c) || IsQuote(c); })};
  return {begin, word};
}

// What is in [] or {} of one line, unless it is numbers.
Span SecretScan::Bracket(const Value& value) const {
  const char open = Look(value.begin);
  if ((open != '[' && open != '{') || value.kind == SecretName::kPerhaps) return {};
  const std::size_t begin = value.begin + 1;
  const std::string_view line = text_.substr(begin, kMostInBrackets);
  const std::size_t end = line.find_first_of(open == '[' ? std::string_view("]\n\0", 3) : std::string_view("}\n\0", 3));
  if (end == std::string_view::npos || (line[end] != ']' && line[end] != '}')) return {};
  const std::string_view inside = line.substr(0, end);
  return inside.find_first_not_of("0123456789., ") == std::string_view::npos ? Span{} : Span{begin, begin + end};
}

}  // namespace ncclwatch::settings
