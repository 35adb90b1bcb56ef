#include "core/model/text.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>

#include "ncclwatch/format/python_site.h"
#include "ncclwatch/format/record.h"
#include "ncclwatch/functions/types.h"

namespace ncclwatch::diagnosis {
namespace {

template <typename... Args>
std::string Format(const char* format, Args... args) {
  char buffer[96];
  std::snprintf(buffer, sizeof(buffer), format, args...);
  return buffer;
}

struct Date {
  std::int64_t year;
  unsigned month, day;
};

// Days since 1970-01-01 to a date of the Gregorian calendar; years run from March so that the leap day comes last.
Date FromDays(std::int64_t days) {
  days += 719468;
  const std::int64_t era = (days >= 0 ? days : days - 146096) / 146097;
  const auto day_of_era = static_cast<unsigned>(days - era * 146097);
  const unsigned year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
  const unsigned day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  const unsigned shifted = (5 * day_of_year + 2) / 153;
  const unsigned month = shifted < 10 ? shifted + 3 : shifted - 9;
  return {static_cast<std::int64_t>(year_of_era) + era * 400 + (month <= 2 ? 1 : 0), month,
          day_of_year - (153 * shifted + 2) / 5 + 1};
}

std::string Arguments(std::optional<std::uint64_t> count, const std::optional<std::string>& dtype,
                      const std::optional<std::string>& reduction, std::optional<int> root) {
  std::string text = DataText(count, dtype);
  if (!text.empty()) text = " of " + text;
  std::vector<std::string> extra;
  if (reduction) extra.push_back(*reduction);
  if (root) extra.push_back("root " + std::to_string(*root));
  if (!extra.empty()) text += " (" + Join(extra, ", ") + ")";
  return text;
}

}  // namespace

std::string DataText(std::optional<std::uint64_t> count, const std::optional<std::string>& dtype) {
  return (count ? std::to_string(*count) : "") + (count && dtype ? " " : "") + dtype.value_or("");
}

std::string RankSet(const std::vector<int>& ascending) {
  std::string text;
  const auto append = [&text](const std::string& part) { text += (text.empty() ? "" : ",") + part; };
  bool unknown = false;
  for (std::size_t i = 0; i < ascending.size();) {
    if (ascending[i] < 0) {
      unknown = true;
      ++i;
      continue;
    }
    std::size_t end = i + 1;
    while (end < ascending.size() && ascending[end] == ascending[end - 1] + 1) ++end;
    if (end - i == 1) append(std::to_string(ascending[i]));
    if (end - i > 1) append(std::to_string(ascending[i]) + "-" + std::to_string(ascending[end - 1]));
    i = end;
  }
  if (unknown) append("?");
  return text;
}

std::string Ranks(const std::vector<int>& ascending) {
  if (ascending.empty()) return "no rank";
  return (ascending.size() == 1 ? "rank " : "ranks ") + RankSet(ascending);
}

std::string Hex16(std::uint64_t value) { return Format("%016llx", static_cast<unsigned long long>(value)); }

void CommunicatorNames::Add(std::uint64_t id, const std::string& label) {
  if (!label.empty() && labels_.try_emplace(id, label).second) ++bearers_[label];
}

std::string CommunicatorNames::Name(std::uint64_t id, std::size_t digits, std::string_view quote) const {
  const std::string number = Hex16(id).substr(0, digits);
  const auto label = labels_.find(id);
  if (label == labels_.end()) return number;
  const std::string name = fmt::format("{}{}{}", quote, label->second, quote);
  return bearers_.at(label->second) > 1 ? name + " " + number : name;
}

std::string CommunicatorNames::Short(std::uint64_t id) const {
  constexpr std::size_t kDigits = 8;
  return Name(id, kDigits, "");
}

std::string CommunicatorNames::Long(std::uint64_t id) const { return Name(id, std::string::npos, "\""); }

std::string Hex(std::uint64_t value) { return Format("0x%llx", static_cast<unsigned long long>(value)); }

std::string Seconds(std::int64_t nanoseconds) {
  const double seconds = static_cast<double>(nanoseconds) * 1e-9;
  if (seconds < 1.0) return Format("%.0f ms", seconds * 1e3);
  if (seconds < 600.0) return Format("%.1f s", seconds);
  return Format("%.0f min", seconds / 60);
}

std::string Bytes(std::uint64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  auto amount = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; amount >= 1024 && unit + 1 < kUnits.size(); ++unit) amount /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", amount, kUnits[unit]);
  return text;
}

std::string UtcTime(std::int64_t realtime_ns) {
  constexpr std::int64_t kDayMs = 86'400'000;
  std::int64_t ms = realtime_ns / 1'000'000;
  std::int64_t days = ms / kDayMs;
  ms %= kDayMs;
  if (ms < 0) ms += kDayMs, --days;
  const Date date = FromDays(days);
  return Format("%04lld-%02u-%02uT%02u:%02u:%02u.%03uZ", static_cast<long long>(date.year), date.month, date.day,
                static_cast<unsigned>(ms / 3'600'000), static_cast<unsigned>(ms / 60'000 % 60),
                static_cast<unsigned>(ms / 1000 % 60), static_cast<unsigned>(ms % 1000));
}

std::string SignalName(int signal) {
  switch (signal) {
    case SIGHUP: return "SIGHUP";
    case SIGINT: return "SIGINT";
    case SIGQUIT: return "SIGQUIT";
    case SIGILL: return "SIGILL";
    case SIGTRAP: return "SIGTRAP";
    case SIGABRT: return "SIGABRT";
    case SIGBUS: return "SIGBUS";
    case SIGFPE: return "SIGFPE";
    case SIGKILL: return "SIGKILL";
    case SIGUSR1: return "SIGUSR1";
    case SIGSEGV: return "SIGSEGV";
    case SIGUSR2: return "SIGUSR2";
    case SIGPIPE: return "SIGPIPE";
    case SIGALRM: return "SIGALRM";
    case SIGTERM: return "SIGTERM";
    case SIGXCPU: return "SIGXCPU";
    case SIGSYS: return "SIGSYS";
    default: return "signal " + std::to_string(signal);
  }
}

std::string ResultName(std::int32_t result) {
  static constexpr std::array<std::string_view, 8> names = {"success",        "unhandled_cuda_error", "system_error",
                                                            "internal_error", "invalid_argument",     "invalid_usage",
                                                            "remote_error",   "in_progress"};
  if (result >= 0 && static_cast<std::size_t>(result) < names.size()) return std::string(names[result]);
  return "result " + std::to_string(result);
}

std::string ReductionName(std::uint8_t reduction) {
  if (reduction == format::kUserReduction) return "user";
  return std::string(functions::ReductionName(reduction));
}

std::string Plural(std::size_t count, std::string_view noun) {
  return std::to_string(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

std::string Join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) text += (i > 0 ? std::string(separator) : "") + parts[i];
  return text;
}

std::string Capital(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 'a' + 'A');
  return text;
}

namespace {

// Of "/path/of/train.py:24 in train".
std::optional<SourcePlace> LineNamed(std::string_view name) {
  constexpr std::string_view kIn = " in ";
  SourcePlace source;
  source.on_main_thread = name.ends_with(format::kOnMainThread);
  if (source.on_main_thread) name.remove_suffix(std::string_view(format::kOnMainThread).size());
  const std::size_t in = name.rfind(kIn);
  const std::size_t colon = in == std::string_view::npos ? in : name.rfind(':', in);
  if (colon == std::string_view::npos || colon == 0) return std::nullopt;
  const auto [end, error] = std::from_chars(name.data() + colon + 1, name.data() + in, source.line);
  if (error != std::errc() || end != name.data() + in) return std::nullopt;
  source.file = name.substr(0, colon);
  source.function = name.substr(in + kIn.size());
  return source;
}

}  // namespace

std::optional<SourcePlace> PlaceNamed(const std::string& name, std::int64_t real_ns) {
  const std::size_t plus = name.rfind("+0x");
  if (plus == std::string::npos || name[0] != '/') return LineNamed(name);
  SourcePlace source;
  source.module = name.substr(0, plus);
  const char* const begin = name.data() + plus + 3;
  const auto [end, error] = std::from_chars(begin, name.data() + name.size(), source.offset, 16);
  if (error != std::errc() || end != name.data() + name.size()) return LineNamed(name);
  source.real_ns = real_ns;
  return source;
}

std::optional<SourcePlace> SourceOf(const reader::BoxImage& box, std::uint64_t site) {
  const auto known = std::find_if(box.call_sites.begin(), box.call_sites.end(),
                                  [&](const reader::CallSite& one) { return one.address == site; });
  if (known == box.call_sites.end()) return std::nullopt;
  auto source = PlaceNamed(known->name, known->named_ns + box.realtime_minus_monotonic_ns);
  if (!source || known->native == 0) return source;
  if (const auto native = SourceOf(box, known->native)) {
    source->module = native->module;
    source->offset = native->offset;
    source->real_ns = native->real_ns;
  }
  return source;
}

std::string LineText(const SourcePlace& source) {
  std::string text = source.file.substr(source.file.rfind('/') + 1);
  if (source.line > 0) text += fmt::format(":{}", source.line);
  if (!source.function.empty()) text += " in " + source.function;
  return source.on_main_thread ? text + format::kOnMainThread : text;
}

std::vector<int> SortedUnique(std::vector<int> ranks) {
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

std::string CallText(const CallSummary& call) {
  if (!call.op) return std::string(Name(call.state));
  return *call.op + Arguments(call.count, call.dtype, call.reduction, call.root);
}

}  // namespace ncclwatch::diagnosis
