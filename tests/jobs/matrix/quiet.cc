// Hours of healthy jobs, looked at again and again as a leader does: nothing is to be said.
#include <fmt/core.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "core/model/finding.h"
#include "core/slow/find.h"
#include "tests/jobs/matrix/judge.h"
#include "tests/jobs/matrix/modes.h"
#include "tests/jobs/simulator/slow_job.h"

namespace ncclwatch::jobs {
namespace {

constexpr std::int64_t kHour = 3600;
constexpr std::uint32_t kCallsOfALook = 4096;  // SlowWatch::kCalls
constexpr int kLooks = 40;                     // in an hour: most calls have been looked at several times

// What it would say of one job: what two looks in a row have found and was not said before.
std::vector<std::string> Alerts(Generated* made) {
  std::vector<std::string> alerts;
  std::string seen, reported;
  const std::int64_t end = made->now;
  for (int look = 1; look <= kLooks; ++look) {
    made->now = end / kLooks * look;
    std::string now, text;
    for (const diagnosis::Finding& finding : diagnosis::FindSlow(SnapshotOf(*made))) {
      if (now.empty())
        for (const int rank : finding.culprits) now += fmt::format(" {}", rank);
      now = std::string(diagnosis::Name(finding.kind)) + now;
      text += "\n    " + std::string(diagnosis::Name(finding.kind)) + ": " + finding.summary;
    }
    if (now == std::exchange(seen, now) && now != reported && !now.empty()) alerts.push_back(text);
    if (now == seen) reported = now;
  }
  return alerts;
}

}  // namespace

int RunQuiet(const Options& options) {
  const std::uint64_t first = options.Number("first", 1), hours = options.Number("hours", 20);
  const std::vector<std::string> sizes = options.List("ranks", {"8", "16"});
  std::uint64_t alerts = 0, steps = 0;
  for (std::uint64_t hour = 0; hour < hours; ++hour) {
    const int ranks = std::atoi(sizes[hour % sizes.size()].c_str());
    Generated made;
    GenerateQuiet(ranks, kHour, first + hour, &made);
    made.job.ring = kCallsOfALook;
    steps += static_cast<std::uint64_t>(made.job.steps);
    for (const std::string& alert : Alerts(&made)) {
      ++alerts;
      std::printf("job_matrix quiet --hours 1 --ranks %d --first %llu:%s\n", ranks,
                  static_cast<unsigned long long>(first + hour), alert.c_str());
      std::fflush(stdout);
    }
  }
  std::printf("%llu job-hours, %llu steps, %llu looks: %llu alerts\n", static_cast<unsigned long long>(hours),
              static_cast<unsigned long long>(steps), static_cast<unsigned long long>(hours * kLooks),
              static_cast<unsigned long long>(alerts));
  return alerts <= options.Number("most", 1) ? 0 : 1;
}

}  // namespace ncclwatch::jobs
