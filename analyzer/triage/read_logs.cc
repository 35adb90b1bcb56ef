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
  return scanned;
}

Triage TriageOf(const Matcher& matcher, const std::vector<LogFile>& files) {
  Triage triage = Judge(matcher.rules(), ScanLogs(matcher, files, nullptr));
  if (const auto known = ReadKnownBad({}); known.ok()) triage.known_bad = KnownBadOf(*known, VersionsIn(files), triage);
  return triage;
}

}  // namespace ncclwatch::analyzer
