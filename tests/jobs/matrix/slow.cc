// Slow jobs held against what slows them: precision, recall and how far off the step is, row by row.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "core/model/finding.h"
#include "core/slow/find.h"
#include "tests/jobs/matrix/judge.h"
#include "tests/jobs/matrix/modes.h"
#include "tests/jobs/simulator/slow_job.h"

namespace ncclwatch::jobs {
namespace {

using diagnosis::Finding;

struct SlowRow {
  int jobs = 0;
  int wanted = 0, right = 0;  // answers, and findings that are one
  int wrong = 0;              // findings that are none
  int late = 0;               // right but for the step
  std::vector<double> off;    // steps, of those with an onset
  double precision() const { return right + wrong == 0 ? 1 : static_cast<double>(right) / (right + wrong); }
  double recall() const { return wanted == 0 ? 1 : static_cast<double>(right) / wanted; }
};

bool IsAnswer(const Finding& finding, const SlowAnswer& answer) {
  const std::string kind(diagnosis::Name(finding.kind));
  return std::find(answer.kinds.begin(), answer.kinds.end(), kind) != answer.kinds.end() &&
         finding.culprits == answer.culprits;
}

std::string Said(const std::vector<Finding>& findings) {
  std::string said;
  for (const Finding& finding : findings)
    said += fmt::format("\n    {}{}: {}", diagnosis::Name(finding.kind), finding.caused_by ? " (caused)" : "",
                        finding.summary);
  return said.empty() ? "nothing" : said;
}

// Steps of the simulation begin with section 1, those that are found with 0.
std::optional<double> OffBy(const Finding& finding, const SlowAnswer& answer) {
  if (answer.onset < 0 || !finding.onset) return std::nullopt;
  const double reported = finding.onset->since_before ? 0 : static_cast<double>(finding.onset->step) + 1;
  return std::abs(reported - answer.onset);
}

constexpr double kOnset_steps = 10;

// The first is the cause, in the order of the truth; each further one says so.
bool Judge(const std::vector<Finding>& findings, const SlowTruth& truth, SlowRow* row) {
  ++row->jobs;
  row->wanted += static_cast<int>(truth.answers.size());
  bool all = findings.size() == truth.answers.size();
  for (std::size_t i = 0; i < findings.size(); ++i) {
    const bool follows = i < truth.answers.size() && findings[i].caused_by.has_value() == (i > 0);
    if (!follows || !IsAnswer(findings[i], truth.answers[i])) {
      ++row->wrong;
      all = false;
      continue;
    }
    const std::optional<double> off = OffBy(findings[i], truth.answers[i]);
    if (off) row->off.push_back(*off);
    if (off > kOnset_steps) {
      ++row->late;
      all = false;
    } else {
      ++row->right;
    }
  }
  return all;
}

void Print(const std::string& name, SlowRow row) {
  std::sort(row.off.begin(), row.off.end());
  const auto at = [&](double share) {
    return row.off.empty() ? 0 : row.off[static_cast<std::size_t>(share * static_cast<double>(row.off.size() - 1))];
  };
  std::printf("%-22s %6d %10.3f %7.3f %9.0f %9.0f %6d %6d\n", name.c_str(), row.jobs, row.precision(), row.recall(),
              at(0.5), at(1), row.wrong, row.late);
  std::fflush(stdout);
}

// One job with the fault and one without it.
void RunRow(const std::string& fault, const Options& options, SlowRow* row) {
  const std::uint64_t first = options.Number("first", 1), seeds = options.Number("seeds", 5);
  for (const std::string& word : options.List("ranks", {"8", "64"}))
    for (std::uint64_t seed = first; seed < first + seeds; ++seed)
      for (const char* const planted : {fault.c_str(), "healthy"}) {
        const int ranks = std::atoi(word.c_str());
        const SlowShape shape{planted, fault, ranks, seed};
        Generated made;
        SlowTruth truth;
        if (!GenerateSlow(shape, &made, &truth)) continue;
        const std::vector<Finding> findings = diagnosis::FindSlow(SnapshotOf(made));
        if (Judge(findings, truth, row) && !options.Has("show")) continue;
        std::printf("job_matrix slow --fault %s%s --ranks %d --first %llu --seeds 1: %s\n  said %s\n", fault.c_str(),
                    truth.answers.empty() ? " (its healthy job)" : "", ranks, static_cast<unsigned long long>(seed),
                    truth.story.c_str(), Said(findings).c_str());
      }
}

}  // namespace

int RunSlow(const Options& options) {
  const std::vector<std::string> faults = options.List("fault", SlowFaults());
  bool good = true;
  std::vector<std::pair<std::string, SlowRow>> rows;
  for (const std::string& fault : faults) RunRow(fault, options, &rows.emplace_back(fault, SlowRow()).second);
  std::printf("%-22s %6s %10s %7s %9s %9s %6s %6s\n", "fault", "jobs", "precision", "recall", "off by", "at most",
              "wrong", "late");
  for (const auto& [fault, row] : rows) {
    Print(fault, row);
    good = good && row.precision() >= 0.99 && row.recall() >= 0.95;
  }
  return good ? 0 : 1;
}

}  // namespace ncclwatch::jobs
