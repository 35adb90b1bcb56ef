#include "analyzer/triage/read_logs.h"

#include <absl/time/clock.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "analyzer/files/input_file.h"
#include "analyzer/triage/versions.h"

namespace ncclwatch::analyzer {

constexpr std::uint64_t kMostBytesOfRules = 16 << 20;

absl::StatusOr<Matcher> MakeMatcher(const std::vector<std::string>& rule_files) {
  auto rules = ParseRules(OwnRules(), "rules");
  for (const std::string& path : rule_files) {
    if (!rules.ok()) break;
    const auto text = ReadFile(path, kMostBytesOfRules);
    if (!text.ok()) return text.status();
    auto more = ParseRules(*text, path);
    if (!more.ok()) return more.status();
    AddRules(*std::move(more), &*rules);
  }
  if (!rules.ok()) return rules.status();
  return Matcher::Make(*std::move(rules));
}

namespace {

// The year in which it is nearest to `near`.
absl::Time NearestYear(absl::Time time, absl::Time near) {
  const absl::TimeZone utc = absl::UTCTimeZone();
  const auto in_year = [&](absl::CivilSecond at, absl::civil_year_t year) {
    return absl::FromCivil(absl::CivilSecond(year, at.month(), at.day(), at.hour(), at.minute(), at.second()), utc) +
           (time - absl::FromCivil(at, utc));
  };
  const absl::CivilSecond at = absl::ToCivilSecond(time, utc);
  const absl::civil_year_t year = absl::ToCivilYear(near, utc).year();
  absl::Time best = in_year(at, year);
  for (const absl::civil_year_t other : {year - 1, year + 1})
    if (absl::AbsDuration(in_year(at, other) - near) < absl::AbsDuration(best - near)) best = in_year(at, other);
  return best;
}

// Files without a year take that of the others.
void SettleYears(std::vector<ScannedFile>* files) {
  std::optional<absl::Time> known;
  for (const ScannedFile& file : *files)
    for (const Stream& stream : file.streams)
      if (file.year && !file.kernel) known = std::max(known, stream.last_at);
  if (!known) return;
  const auto settle = [&](std::optional<absl::Time>* time) {
    if (*time) **time = NearestYear(**time, *known);
  };
  for (ScannedFile& file : *files) {
    if (file.year) continue;
    for (Match& match : file.matches) settle(&match.at);
    for (Stream& stream : file.streams)
      for (std::optional<absl::Time>* const time : {&stream.first_at, &stream.last_at, &stream.progress_at})
        settle(time);
  }
}

}  // namespace

std::vector<ScannedFile> ScanLogs(const Matcher& matcher, const std::vector<LogFile>& files,
                                  const std::function<void(std::uint64_t)>& progress) {
  const int year = absl::ToCivilYear(absl::Now(), absl::UTCTimeZone()).year();
  std::vector<ScannedFile> scanned(files.size());
  std::atomic<std::size_t> next{0}, done{0};
  std::atomic<std::uint64_t> read{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < files.size(); i = next++) {
      scanned[i] = ScanLog(matcher, files[i], year, &read);
      ++done;
    }
  };
  std::vector<std::thread> threads;
  const std::size_t most = std::min<std::size_t>(std::max(1U, std::thread::hardware_concurrency()), files.size());
  for (std::size_t i = 0; i < most; ++i) threads.emplace_back(work);
  while (progress && done < files.size()) {
    progress(read);
    absl::SleepFor(absl::Milliseconds(20));
  }
  for (std::thread& thread : threads) thread.join();
  SettleYears(&scanned);
  return scanned;
}

Triage TriageOf(const Matcher& matcher, const std::vector<LogFile>& files) {
  Triage triage = Judge(matcher.rules(), ScanLogs(matcher, files, nullptr));
  if (const auto known = ReadKnownBad({}); known.ok()) triage.known_bad = KnownBadOf(*known, VersionsIn(files), triage);
  return triage;
}

}  // namespace ncclwatch::analyzer
