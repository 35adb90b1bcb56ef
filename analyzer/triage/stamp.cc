#include "analyzer/triage/stamp.h"

#include <absl/strings/numbers.h>
#include <re2/re2.h>

#include <cctype>
#include <string>

namespace ncclwatch::analyzer {
namespace {

constexpr std::size_t kStampWithin = 96;  // letters from the line's beginning
constexpr std::string_view kMonths = "JanFebMarAprMayJunJulAugSepOctNovDec";

bool IsDigit(char letter) { return std::isdigit(static_cast<unsigned char>(letter)); }

// A number that ends at `end` and has `digits` digits at most; moves `end` to its beginning. -1: there is none.
int NumberBefore(std::string_view text, std::size_t* end, std::size_t digits) {
  int number = 0, scale = 1;
  std::size_t begin = *end;
  for (; begin > 0 && *end - begin < digits && IsDigit(text[begin - 1]); --begin, scale *= 10)
    number += (text[begin - 1] - '0') * scale;
  if (begin == *end) return -1;
  *end = begin;
  return number;
}

bool EatBefore(std::string_view text, std::size_t* end, std::string_view any_of) {
  if (*end == 0 || any_of.find(text[*end - 1]) == std::string_view::npos) return false;
  --*end;
  return true;
}

struct Date {
  int year = 0, month = 0, day = 0;
};

bool IsDate(const Date& date) {
  return date.month >= 1 && date.month <= 12 && date.day >= 1 && date.day <= 31 && date.year >= 1970 &&
         date.year < 2200;
}

// "2026-11-26T", "2026/11/26 ", "11/26/2026 ", "ERROR 11-26 ": `end` is behind the day.
std::optional<Date> Numbered(std::string_view text, std::size_t end, int year) {
  const int last = NumberBefore(text, &end, 4);
  if (last < 0 || !EatBefore(text, &end, "-/")) return std::nullopt;
  const int middle = NumberBefore(text, &end, 2);
  if (middle < 0) return std::nullopt;
  if (!EatBefore(text, &end, "-/")) return end > 0 && text[end - 1] == ' ' ? Date{year, middle, last} : Date{};
  const int first = NumberBefore(text, &end, 4);
  return first > 31 ? Date{first, middle, last} : Date{last, first, middle};
}

// "Nov 26 ", behind it.
std::optional<Date> Named(std::string_view text, std::size_t end, int year) {
  const int day = NumberBefore(text, &end, 2);
  if (day < 0) return std::nullopt;
  while (EatBefore(text, &end, " ")) {
  }
  if (end < 3) return std::nullopt;
  const std::size_t month = kMonths.find(text.substr(end - 3, 3));
  if (month == std::string_view::npos || month % 3 != 0) return std::nullopt;
  return Date{year, static_cast<int>(month / 3) + 1, day};
}

// "E1126 "; c10 writes the months of January to September with one digit.
std::optional<Date> Glog(std::string_view text, std::size_t end, int year) {
  const std::size_t behind = end;
  const int number = NumberBefore(text, &end, 4);
  if (number < 0 || behind - end < 3 || end == 0) return std::nullopt;
  if (std::string_view("IWEF").find(text[end - 1]) == std::string_view::npos) return std::nullopt;
  return Date{year, number / 100, number % 100};
}

// Of "12:00:03": digits and colons at `at`.
bool IsClock(std::string_view text, std::size_t at) {
  constexpr std::string_view kShape = "00:00:00";
  if (at + kShape.size() > text.size()) return false;
  for (std::size_t i = 0; i < kShape.size(); ++i)
    if (kShape[i] == ':' ? text[at + i] != ':' : !IsDigit(text[at + i])) return false;
  return true;
}

int TwoDigits(std::string_view text, std::size_t at) { return (text[at] - '0') * 10 + (text[at + 1] - '0'); }

// "2026" of "12:00:03 2026": the kernel's and MPI's way.
int YearBehind(std::string_view text, int year) {
  if (text.size() < 5 || text[0] != ' ' || (text.size() > 5 && IsDigit(text[5]))) return year;
  for (std::size_t i = 1; i < 5; ++i)
    if (!IsDigit(text[i])) return year;
  const int said = TwoDigits(text, 1) * 100 + TwoDigits(text, 3);
  return said >= 1990 && said < 2200 ? said : year;
}

absl::Duration Fraction(std::string_view* text) {
  constexpr std::size_t kDigits = 9;
  if (text->size() < 2 || (text->front() != '.' && text->front() != ',') || !IsDigit((*text)[1]))
    return absl::ZeroDuration();
  text->remove_prefix(1);
  std::int64_t nanoseconds = 0, unit = 100000000;
  for (std::size_t i = 0; i < kDigits && !text->empty() && IsDigit(text->front()); ++i, unit /= 10) {
    nanoseconds += (text->front() - '0') * unit;
    text->remove_prefix(1);
  }
  return absl::Nanoseconds(nanoseconds);
}

// "+01:00", "-0800"; what else is UTC.
absl::Duration Zone(std::string_view text) {
  if (text.size() < 5 || (text[0] != '+' && text[0] != '-')) return absl::ZeroDuration();
  const std::size_t minutes = text[3] == ':' ? 4 : 3;
  if (text.size() < minutes + 2) return absl::ZeroDuration();
  for (const std::size_t at : {std::size_t{1}, std::size_t{2}, minutes, minutes + 1})
    if (!IsDigit(text[at])) return absl::ZeroDuration();
  const absl::Duration offset = absl::Hours(TwoDigits(text, 1)) + absl::Minutes(TwoDigits(text, minutes));
  return text[0] == '-' ? -offset : offset;
}

std::optional<absl::Time> At(std::string_view text, std::size_t clock, int year) {
  std::string_view behind = text.substr(clock + 8);
  std::size_t end = clock;
  if (!EatBefore(text, &end, " T_")) return std::nullopt;
  std::optional<Date> date = Numbered(text, end, year);
  const bool numbered = date.has_value();
  if (!date) date = Glog(text, end, year);
  if (!date) date = Named(text, end, YearBehind(behind, year));
  if (!date || !IsDate(*date)) return std::nullopt;
  const absl::Duration fraction = Fraction(&behind);
  const absl::CivilSecond civil(date->year, date->month, date->day, TwoDigits(text, clock), TwoDigits(text, clock + 3),
                                TwoDigits(text, clock + 6));
  return absl::FromCivil(civil, absl::UTCTimeZone()) + fraction - (numbered ? Zone(behind) : absl::ZeroDuration());
}

}  // namespace

std::optional<absl::Time> ParseStamp(std::string_view line, int year) {
  const std::string_view text = line.substr(0, kStampWithin);
  for (std::size_t colon = text.find(':'); colon != std::string_view::npos; colon = text.find(':', colon + 1)) {
    if (colon < 3 || !IsClock(text, colon - 2)) continue;
    if (const auto time = At(text, colon - 2, year)) return time;
  }
  return std::nullopt;
}

std::optional<int> YearIn(std::string_view text) {
  static const RE2 pattern(R"(\b((?:19|20)\d\d)[-/]\d\d[-/]\d\d[T _]\d\d:\d\d|\d\d:\d\d:\d\d ((?:19|20)\d\d)\])");
  std::string iso, kernel;
  int year = 0;
  if (!RE2::PartialMatch(re2::StringPiece(text.data(), text.size()), pattern, &iso, &kernel)) return std::nullopt;
  if (!absl::SimpleAtoi(iso.empty() ? kernel : iso, &year)) return std::nullopt;
  return year;
}

}  // namespace ncclwatch::analyzer
