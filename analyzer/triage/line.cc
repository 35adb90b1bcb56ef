#include "analyzer/triage/line.h"

#include <absl/strings/numbers.h>
#include <re2/re2.h>

#include <algorithm>
#include <cctype>

namespace ncclwatch::analyzer {
namespace {

constexpr std::size_t kStampWithin = 96;  // letters from the line's beginning
constexpr std::string_view kMonths = "JanFebMarAprMayJunJulAugSepOctNovDec";

bool EatNumber(std::string_view* text, int* number) {
  std::size_t digits = 0;
  while (digits < text->size() && digits < 7 && std::isdigit(static_cast<unsigned char>((*text)[digits]))) ++digits;
  if (digits == 0 || !absl::SimpleAtoi(std::string(text->substr(0, digits)), number)) return false;
  text->remove_prefix(digits);
  return true;
}

bool Eat(std::string_view* text, std::string_view word) {
  if (text->substr(0, word.size()) != word) return false;
  text->remove_prefix(word.size());
  return true;
}

void EatSpace(std::string_view* text) {
  if (!text->empty() && text->front() == ' ') text->remove_prefix(1);
}

// "[WORD N]:" and "[WORDN]:"
bool EatBracket(std::string_view* text, std::string_view word, int* number) {
  std::string_view rest = *text;
  int read = 0;
  if (!Eat(&rest, "[") || !Eat(&rest, word)) return false;
  EatSpace(&rest);
  if (!EatNumber(&rest, &read) || !Eat(&rest, "]:")) return false;
  EatSpace(&rest);
  *number = read;
  *text = rest;
  return true;
}

// Open MPI's `--tag-output`: "[1,3]<stderr>:".
bool EatMpi(std::string_view* text, int* number) {
  std::string_view rest = *text;
  int job = 0, read = 0;
  if (!Eat(&rest, "[") || !EatNumber(&rest, &job) || !Eat(&rest, ",") || !EatNumber(&rest, &read) || !Eat(&rest, "]<"))
    return false;
  const std::size_t end = rest.find(">:");
  if (end == std::string_view::npos || end > 8) return false;
  rest.remove_prefix(end + 2);
  *number = read;
  *text = rest;
  return true;
}

bool EatNumbered(std::string_view* text, int* number) {
  std::string_view rest = text->substr(std::min(text->find_first_not_of(' '), text->size()));
  int read = 0;
  if (!EatNumber(&rest, &read) || !Eat(&rest, ": ")) return false;
  *number = read;
  *text = rest;
  return true;
}

int MonthOf(const re2::StringPiece& name) {
  const std::size_t found = kMonths.find(std::string_view(name.data(), name.size()));
  return found == std::string_view::npos || found % 3 != 0 ? 0 : static_cast<int>(found / 3) + 1;
}

absl::Duration Fraction(const std::string& digits) {
  double value = 0;
  return digits.empty() || !absl::SimpleAtod("0." + digits, &value) ? absl::ZeroDuration() : absl::Seconds(value);
}

absl::Time At(int year, int month, int day, int hour, int minute, int second) {
  return absl::FromCivil(absl::CivilSecond(year, month, day, hour, minute, second), absl::UTCTimeZone());
}

std::optional<Stamp> Iso(const re2::StringPiece& text) {
  static const RE2 pattern(
      R"((\d{4})[-/](\d\d)[-/](\d\d)[T _](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?(Z|[+-]\d\d:?\d\d)?)");
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0;
  std::string fraction, zone;
  if (!RE2::PartialMatch(text, pattern, &year, &month, &day, &hour, &minute, &second, &fraction, &zone))
    return std::nullopt;
  Stamp stamp{At(year, month, day, hour, minute, second) + Fraction(fraction), !zone.empty()};
  int hours = 0, minutes = 0;
  if (zone.size() > 1 && absl::SimpleAtoi(zone.substr(1, 2), &hours) &&
      absl::SimpleAtoi(zone.substr(zone.size() - 2), &minutes))
    stamp.time -= (zone.front() == '-' ? -1 : 1) * (absl::Hours(hours) + absl::Minutes(minutes));
  return stamp;
}

std::optional<Stamp> Glog(const re2::StringPiece& text, int year) {
  static const RE2 pattern(R"(\b[IWEF](\d\d)(\d\d) (\d\d):(\d\d):(\d\d)\.(\d{1,9}))");
  int month = 0, day = 0, hour = 0, minute = 0, second = 0;
  std::string fraction;
  if (!RE2::PartialMatch(text, pattern, &month, &day, &hour, &minute, &second, &fraction)) return std::nullopt;
  return Stamp{At(year, month, day, hour, minute, second) + Fraction(fraction)};
}

std::optional<Stamp> Syslog(const re2::StringPiece& text, int year) {
  static const RE2 pattern(R"(\b([A-Z][a-z]{2}) +(\d{1,2}) (\d\d):(\d\d):(\d\d)(?:\.\d+)?(?: (\d{4})\b)?)");
  re2::StringPiece month;
  int day = 0, hour = 0, minute = 0, second = 0;
  std::string said;
  if (!RE2::PartialMatch(text, pattern, &month, &day, &hour, &minute, &second, &said)) return std::nullopt;
  if (!said.empty() && !absl::SimpleAtoi(said, &year)) return std::nullopt;
  const int number = MonthOf(month);
  if (number == 0) return std::nullopt;
  return Stamp{At(year, number, day, hour, minute, second)};
}

}  // namespace

LinePrefix ParsePrefix(std::string_view line, bool numbered) {
  LinePrefix prefix;
  for (bool more = true; more;) {
    more = EatBracket(&line, "rank", &prefix.rank) || EatBracket(&line, "default", &prefix.local_rank) ||
           EatMpi(&line, &prefix.rank) || (numbered && prefix.rank < 0 && EatNumbered(&line, &prefix.rank));
  }
  prefix.rest = line;
  return prefix;
}

std::string WithoutColors(std::string_view line) {
  std::string plain(line);
  static const RE2 sequence("\x1b\\[[0-9;?]*[A-Za-z]");
  if (plain.find('\x1b') != std::string::npos) RE2::GlobalReplace(&plain, sequence, "");
  return plain;
}

std::optional<Stamp> ParseStamp(std::string_view line, int year) {
  const re2::StringPiece text(line.data(), std::min(line.size(), kStampWithin));
  if (auto stamp = Iso(text)) return stamp;
  if (auto stamp = Glog(text, year)) return stamp;
  return Syslog(text, year);
}

}  // namespace ncclwatch::analyzer
