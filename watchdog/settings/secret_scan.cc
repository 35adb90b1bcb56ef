#include "watchdog/settings/secret_scan.h"

#include <algorithm>
#include <array>


namespace ncclwatch::settings {
namespace {

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
  constexpr std::size_t kLongestKind = 30;  // "SSH2 ENCRYPTED PRIVATE KEY", and no token
  const std::string_view line = text_.substr(at_ + 10, kLongestKind + 5);
  const std::size_t dashes = line.find("-----");
  const std::string_view kind = line.substr(0, dashes);
  if (dashes == std::string_view::npos || kind.find("PRIVATE KEY") == std::string_view::npos ||
      !std::all_of(kind.begin(), kind.end(), [](char c) { return IsLarge(c) || IsDigit(c) || c == ' '; }))
    return {};
  const std::size_t begin = at_ + 10 + dashes + 5;
  if (end_mark_ < begin) end_mark_ = std::min(text_.find("-----END", begin), text_.size());
  constexpr std::size_t kLongestKey = 16 << 10;
  if (end_mark_ < text_.size() && end_mark_ - begin <= kLongestKey)
    return {begin, std::min(end_mark_, text_.find('\0', begin))};
  return {begin, End(begin, [](char c) {
            return c == '\0' || (!IsLetter(c) && !IsDigit(c) && !EndsWord(c) && !IsOneOf(c, "+/=\\:,-*"));
          })};
}

}  // namespace ncclwatch::settings
