#include "watchdog/settings/settings.h"

#include <charconv>
#include <cmath>
#include <string_view>

#include "watchdog/settings/bind_address.h"
#include "watchdog/settings/environment.h"
#include "watchdog/settings/exchange_address.h"
#include "watchdog/settings/words.h"

namespace ncclwatch::settings {
namespace {

constexpr std::uint32_t kSmallestRing = 256;
constexpr std::uint32_t kLargestRing = 1u << 22;
constexpr std::uint32_t kFewestCommunicators = 64;
constexpr std::uint32_t kMostCommunicators = 65536;
constexpr double kMostCrashStack = 8 << 20;
constexpr double kLongestTimeout_s = 7 * 86400.0;  // beyond a week a stall is nobody's news

std::optional<double> Timeout(const Environment& environment) {
  constexpr const char* kVariable = "NCCLWATCH_TIMEOUT";
  std::string_view value = environment.Get(kVariable);
  if (value.empty() || Same(value, "auto")) return std::nullopt;
  if (value.size() > 1 && value.back() == 's') value.remove_suffix(1);
  double seconds = 0;
  // from_chars: the application's locale may want a decimal comma.
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), seconds);
  if (error == std::errc() && end == value.data() + value.size() && std::isfinite(seconds) && seconds > 0 &&
      seconds <= kLongestTimeout_s)
    return seconds;
  environment.Complain(kVariable, "not understood, auto is used", "auto, or seconds greater than 0");
  return std::nullopt;
}

// Nothing where the variable is not set, or is no number from 1 to `most`, which is a complaint then.
std::optional<std::uint32_t> Number(const Environment& environment, const char* variable, std::uint32_t most,
                                    const char* problem, const char* accepted) {
  const std::string_view value = environment.Get(variable);
  if (value.empty()) return std::nullopt;
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error == std::errc() && end == value.data() + value.size() && number > 0 && number <= most)
    return static_cast<std::uint32_t>(number);
  environment.Complain(variable, problem, accepted);
  return std::nullopt;
}

std::uint32_t Ring(const Environment& environment, std::uint32_t fallback) {
  const std::optional<std::uint32_t> records = Number(
      environment, "NCCLWATCH_RING", kLargestRing, "not understood, the default is used", "records, from 1 to 4194304");
  if (!records) return fallback;
  std::uint32_t ring = kSmallestRing;
  while (ring < *records) ring *= 2;
  return ring;
}

std::uint32_t Communicators(const Environment& environment, std::uint32_t fallback) {
  const std::optional<std::uint32_t> number = Number(environment, "NCCLWATCH_COMMUNICATORS", kMostCommunicators,
                                                     "not understood, 1024 is used", "communicators, from 1 to 65536");
  return number ? std::max(*number, kFewestCommunicators) : fallback;
}

MpiChecks Checks(const Environment& environment) {
  constexpr const char* kVariable = "NCCLWATCH_MPI_CHECKS";
  MpiChecks checks;
  std::string_view rest = environment.Get(kVariable);
  while (!rest.empty()) {
    const std::string_view word = TakeElement(&rest);
    if (Same(word, "sync")) {
      checks.sync = true;
    } else if (Same(word, "buffers")) {
      checks.buffers = true;
    } else if (!Same(word, "default")) {
      environment.Complain(kVariable, "not understood, default is used", "default, sync, buffers, sync,buffers");
      return {};
    }
  }
  return checks;
}

Profiler ProfilerOf(const Environment& environment) {
  constexpr const char* kVariable = "NCCLWATCH_PROFILER";
  constexpr std::uint32_t kMostSeldom = 1000000;
  std::string_view value = environment.Get(kVariable);
  if (value.empty() || Same(value, "auto")) return {};
  if (Same(value, "off")) return {0, false};
  Profiler profiler{0, true};
  if (value.starts_with("1/")) {
    value.remove_prefix(2);
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), profiler.every);
    if (error == std::errc() && end == value.data() + value.size() && profiler.every >= 1 &&
        profiler.every <= kMostSeldom)
      return profiler;
  }
  environment.Complain(kVariable, "not understood, auto is used", "auto, off, 1/N as in 1/16");
  return {};
}

// A number and its unit; none if it is not that. Units are one letter each.
struct Unit {
  char letter;
  double factor;
};
template <std::size_t N>
std::optional<double> Measure(std::string_view text, const Unit (&units)[N]) {
  double factor = 1;
  for (const Unit& unit : units) {
    if (text.size() < 2 || (text.back() | 0x20) != unit.letter) continue;
    factor = unit.factor;
    text.remove_suffix(1);
    break;
  }
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(number) || number < 0)
    return std::nullopt;
  return number * factor;
}

constexpr Unit kSizes[] = {{'k', 1024.0}, {'m', 1048576.0}, {'g', 1073741824.0}, {'t', 1099511627776.0}};

std::uint32_t CrashStack(const Environment& environment, std::uint32_t fallback) {
  constexpr const char* kVariable = "NCCLWATCH_CRASH_STACK";
  const std::string_view value = environment.Get(kVariable);
  if (value.empty()) return fallback;
  const std::optional<double> bytes = Measure(value, kSizes);
  if (bytes && *bytes <= kMostCrashStack) return static_cast<std::uint32_t>(*bytes);
  environment.Complain(kVariable, "not understood, 64K is used", "a size up to 8M as in 64K, or 0 for none");
  return fallback;
}

std::uint64_t TraceMost(const Environment& environment) {
  constexpr const char* kVariable = "NCCLWATCH_TRACE_MAX";
  const std::string_view value = environment.Get(kVariable);
  if (value.empty()) return 0;
  const std::optional<double> bytes = Measure(value, kSizes);
  if (bytes && *bytes < 9e18) return static_cast<std::uint64_t>(*bytes);
  environment.Complain(kVariable, "not understood, there is no limit", "a size as in 10G");
  return 0;
}

Keep KeepOf(const Environment& environment) {
  constexpr const char* kVariable = "NCCLWATCH_KEEP";
  constexpr Unit kTimes[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
  const std::string_view value = environment.Get(kVariable);
  Keep keep;
  if (value.empty()) return keep;
  if (Same(value, "all")) {
    keep.all = true;
    return keep;
  }
  const std::string_view age = value.substr(0, value.find(','));
  const std::string_view size = age.size() < value.size() ? value.substr(age.size() + 1) : std::string_view();
  const std::optional<double> age_s = Measure(age, kTimes);
  const std::optional<double> bytes = size.empty() ? static_cast<double>(keep.bytes) : Measure(size, kSizes);
  if (age_s && bytes && *bytes < 9e18) return {*age_s, static_cast<std::uint64_t>(*bytes), false};
  environment.Complain(kVariable, "not understood, 7d,2G is used", "all, or an age and a size as in 7d,2G");
  return keep;
}

double HookTimeout(const Environment& environment, double fallback) {
  constexpr const char* kVariable = "NCCLWATCH_HOOK_TIMEOUT";
  constexpr Unit kTimes[] = {{'s', 1}, {'m', 60}, {'h', 3600}};
  const std::string_view value = environment.Get(kVariable);
  if (value.empty()) return fallback;
  const std::optional<double> seconds = Measure(value, kTimes);
  if (seconds && *seconds > 0 && *seconds <= kLongestTimeout_s) return *seconds;
  environment.Complain(kVariable, "not understood, 30 s are used", "seconds, or minutes as in 2m");
  return fallback;
}

double Bubble(const Environment& environment, double fallback) {
  constexpr const char* kVariable = "NCCLWATCH_BUBBLE";
  constexpr Unit kPercent[] = {{'%', 0.01}};
  const std::string_view value = environment.Get(kVariable);
  if (value.empty()) return fallback;
  const std::optional<double> share = Measure(value, kPercent);
  if (share && *share > 0 && *share <= 1) return *share;
  environment.Complain(kVariable, "not understood, 20% is used", "a share of the step as in 20%");
  return fallback;
}

std::string MetricsPlace(const Environment& environment) {
  constexpr const char* kVariable = "NCCLWATCH_METRICS";
  const std::string_view value = environment.Get(kVariable);
  if (value.empty() || value.front() == '/') return std::string(value);
  const std::optional<BindAddress> place = ParseBind(value);
  if (place && place->prefix < 0 && place->first != 0 && place->first == place->last) return std::string(value);
  environment.Complain(kVariable, "not understood, there are no metrics",
                       "[address]:port as in :9400 (only 127.0.0.1) or "
                       "0.0.0.0:9400, or the path of a file");
  return {};
}

std::string Bind(const Environment& environment) {
  constexpr const char* kVariable = "NCCLWATCH_BIND";
  const std::string_view value = environment.Get(kVariable);
  if (ParseBind(value)) return std::string(value);
  environment.Complain(kVariable, "not understood, all addresses and ports are used",
                       "[address][:port[-port]], as in "
                       "10.1.0.0/16:7000-7100, 10.1.2.3, [fd00::1]:7000 or :7000-7100");
  return {};
}

std::string Exchange(const Environment& environment) {
  constexpr const char* kVariable = "NCCLWATCH_EXCHANGE";
  const std::string_view value = environment.Get(kVariable);
  if (value.empty() || Same(value, "auto")) return "auto";
  if (Same(value, "off")) return "off";
  if (ParseExchange(value)) return std::string(value);
  environment.Complain(kVariable, "not understood, auto is used",
                       "auto, off, tcp://host:port, redis://host[:port][/db], "
                       "rediss://host[:port][/db][?ca=/file&cert=/file&key=/file&name=host]");
  return "auto";
}

}  // namespace

Settings Parse(const Environment& environment) {
  Settings settings;

  constexpr Environment::Choice<bool> kOnOff[] = {{"on", true},   {"1", true},  {"true", true},   {"yes", true},
                                                  {"off", false}, {"0", false}, {"false", false}, {"no", false}};
  settings.on = environment.Choose("NCCLWATCH", settings.on, kOnOff, "on, off");
  settings.directory = environment.Get("NCCLWATCH_DIR");
  settings.out = environment.Get("NCCLWATCH_OUT");
  settings.job = environment.Get("NCCLWATCH_JOB");
  constexpr Environment::Choice<OnFault> kOnFault[] = {
      {"report", OnFault::kReport}, {"dump", OnFault::kDump}, {"abort", OnFault::kAbort}};
  settings.on_fault = environment.Choose("NCCLWATCH_ON_FAULT", settings.on_fault, kOnFault, "report, dump, abort");
  settings.timeout_s = Timeout(environment);
  constexpr Environment::Choice<Trace> kTraces[] = {{"ring", Trace::kRing}, {"full", Trace::kFull}};
  settings.trace = environment.Choose("NCCLWATCH_TRACE", settings.trace, kTraces, "ring, full");
  settings.trace_directory = environment.Get("NCCLWATCH_TRACE_DIR");
  settings.trace_most_bytes = TraceMost(environment);
  settings.ring = Ring(environment, settings.trace == Trace::kFull ? kRecordedRing : settings.ring);
  settings.communicators = Communicators(environment, settings.communicators);
  settings.crash_stack = CrashStack(environment, settings.crash_stack);
  constexpr Environment::Choice<GpuMarks> kGpuMarks[] = {
      {"off", GpuMarks::kOff}, {"end", GpuMarks::kEnd}, {"both", GpuMarks::kBoth}};
  settings.gpu = environment.Choose("NCCLWATCH_GPU", settings.gpu, kGpuMarks, "off, end, both");
  settings.profiler = ProfilerOf(environment);
  constexpr Environment::Choice<Sites> kSites[] = {
      {"off", Sites::kOff}, {"native", Sites::kNative}, {"python", Sites::kPython}, {"auto", Sites::kAuto}};
  settings.sites = environment.Choose("NCCLWATCH_SITES", settings.sites, kSites, "off, native, python, auto");
  settings.mpi_checks = Checks(environment);
  settings.nccl = environment.Get("NCCLWATCH_NCCL");
  settings.hook = environment.Get("NCCLWATCH_HOOK");
  settings.exchange = Exchange(environment);
  settings.ignore = environment.Get("NCCLWATCH_IGNORE");
  settings.token = environment.Get("NCCLWATCH_TOKEN");
  settings.token_file = environment.Get("NCCLWATCH_TOKEN_FILE");
  settings.bind = Bind(environment);
  settings.exclude = environment.Get("NCCLWATCH_EXCLUDE");
  settings.keep = KeepOf(environment);
  settings.hook_timeout_s = HookTimeout(environment, settings.hook_timeout_s);
  settings.ptrace = environment.Choose("NCCLWATCH_PTRACE", settings.ptrace, kOnOff, "on, off");
  settings.metrics = MetricsPlace(environment);
  settings.metrics_token_file = environment.Get("NCCLWATCH_METRICS_TOKEN_FILE");
  settings.topology = environment.Get("NCCLWATCH_TOPOLOGY");
  settings.bubble = Bubble(environment, settings.bubble);
  settings.redact = environment.Get("NCCLWATCH_REDACT");
  constexpr Environment::Choice<LogLevel> kLevels[] = {{"off", LogLevel::kOff},
                                                       {"error", LogLevel::kError},
                                                       {"warn", LogLevel::kWarn},
                                                       {"info", LogLevel::kInfo},
                                                       {"debug", LogLevel::kDebug}};
  settings.log = environment.Choose("NCCLWATCH_LOG", settings.log, kLevels, "off, error, warn, info, debug");

  environment.OnlyDefault("NCCLWATCH_NUMERICS", {"off"}, "off");
  return settings;
}

}  // namespace ncclwatch::settings
