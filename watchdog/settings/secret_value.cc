// SecretScan: where the secret ends that a name has announced.
#include <algorithm>
#include <array>

#include "watchdog/settings/secret_scan.h"
#include "watchdog/settings/words.h"

namespace ncclwatch::settings {
namespace {

bool IsFigure(std::string_view text) {
  return text.find_first_not_of("0123456789.,+-eE%") == std::string_view::npos &&
         std::any_of(text.begin(), text.end(), IsDigit);
}

// What programs print where nothing was given.
bool IsNothing(std::string_view text) {
  constexpr std::array<std::string_view, 6> kNothing{"none", "null", "nil", "true", "false", "unset"};
  return text.empty() || std::any_of(kNothing.begin(), kNothing.end(), [&](auto word) { return Same(word, text); });
}

}  // namespace

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
  return value.kind != SecretName::kToken || !IsFigure(text);
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
