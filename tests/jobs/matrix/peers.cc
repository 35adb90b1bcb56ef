#include <algorithm>
#include <cstdio>
#include <map>

#include "core/diagnose.h"
#include "simulation/chance.h"
#include "tests/jobs/matrix/judge.h"
#include "tests/jobs/matrix/modes.h"
#include "tests/jobs/simulator/topology.h"

namespace ncclwatch::jobs {
namespace {

enum class Named { kAlone, kAmong, kHarmless, kSilent, kWrong, kWrongCertain };
constexpr int kNamed = 6;
enum class Before { kNothing, kFew, kMany };

struct Row {
  int count[kNamed] = {};
  int& of(Named named) { return count[static_cast<int>(named)]; }
  int of(Named named) const { return count[static_cast<int>(named)]; }
  void Add(const Row& other) {
    for (int i = 0; i < kNamed; ++i) count[i] += other.count[i];
  }
  // Jobs in which something went wrong that can be seen.
  int judged() const {
    int all = 0;
    for (int i = 0; i < kNamed; ++i) all += count[i];
    return all - of(Named::kHarmless);
  }
};

Named Judge(const Generated& made, const diagnosis::Diagnosis& diagnosis) {
  const int culprit = made.truth.answers.front().include.front();
  const auto names = [&](const diagnosis::Finding& finding) {
    return std::find(finding.culprits.begin(), finding.culprits.end(), culprit) != finding.culprits.end();
  };
  for (const diagnosis::Finding& finding : diagnosis.findings)
    if (finding.certainty == diagnosis::Certainty::kCertain && !finding.caused_by && !names(finding))
      return Named::kWrongCertain;
  if (diagnosis.findings.empty()) return made.world->hung() ? Named::kSilent : Named::kHarmless;
  const diagnosis::Finding& first = diagnosis.findings.front();
  if (!names(first)) return Named::kWrong;
  const bool alone = first.kind == diagnosis::Kind::kPointToPointMismatch && first.culprits.size() == 1;
  return alone ? Named::kAlone : Named::kAmong;
}

void PrintRowOf(const std::string& name, const Row& row) {
  const int all = std::max(row.judged(), 1);
  std::printf("%-44s %6d %6d %6d %6d %6d %6d  %6.1f %%\n", name.c_str(), row.judged(), row.of(Named::kAlone),
              row.of(Named::kAmong), row.of(Named::kSilent), row.of(Named::kWrong), row.of(Named::kWrongCertain),
              100.0 * row.of(Named::kAlone) / all);
}

void PrintHeadOf(const char* what) {
  std::printf("%-44s %6s %6s %6s %6s %6s %6s  %8s\n", what, "jobs", "alone", "among", "silent", "wrong", "certain",
              "alone");
}

class PeerJobs {
 public:
  explicit PeerJobs(const Options& options) : options_(options), misses_(options.Number("misses", 20)) {}

  int Run() {
    const std::uint64_t first = options_.Number("first", 1), jobs = options_.Number("jobs", 1000);
    for (std::uint64_t seed = first; seed < first + jobs; ++seed) One(seed);
    Row with, without;
    PrintHeadOf("pattern x fault, with steps before");
    for (const auto& [name, row] : by_fault_) PrintRowOf(name, row);
    PrintHeadOf("steps before");
    for (const auto& [before, row] : by_before_) {
      constexpr const char* kNames[] = {"none", "2 to 4", "10 to 40"};
      PrintRowOf(kNames[static_cast<int>(before)], row);
      (before == Before::kNothing ? without : with).Add(row);
    }
    PrintRowOf("all with steps before", with);
    const double right = 100.0 * with.of(Named::kAlone) / std::max(with.judged(), 1);
    const double named =
        100.0 * (without.of(Named::kAlone) + without.of(Named::kAmong)) / std::max(without.judged(), 1);
    std::printf("the culprit alone: %.1f %% with steps before; named, alone or among others: %.1f %% without\n", right,
                named);
    const bool good = with.judged() > 0 && with.of(Named::kWrongCertain) + without.of(Named::kWrongCertain) == 0;
    return good && right >= std::strtod(options_.Text("least", "98").c_str(), nullptr) ? 0 : 1;
  }

 private:
  void One(std::uint64_t seed) {
    Dice dice(seed, 0x9ee4);
    const std::vector<std::string> patterns = options_.List("topology", PeerTopologyNames());
    const std::vector<std::string> faults = options_.List("fault", PeerFaultNames());
    constexpr int kRanks[] = {4, 8, 8, 16, 16, 32, 64};
    constexpr Before kBefore[] = {Before::kNothing, Before::kFew, Before::kFew, Before::kMany, Before::kMany};
    const Before before = kBefore[dice.Below(5)];
    Shape shape{.topology = patterns[seed % patterns.size()],
                .fault = faults[seed / patterns.size() % faults.size()],
                .ranks = dice.Of(kRanks, std::size(kRanks)),
                .seed = seed,
                .late = true};
    if (dice.OneIn(50)) shape.ranks = 256;
    shape.steps = before == Before::kNothing ? 2
                  : before == Before::kFew   ? 4 + dice.Below(3)
                                             : 12 + dice.Below(shape.ranks > 32 ? 8 : 30);
    Generated made;
    if (!Generate(shape, &made)) return;  // a ring has no two sends to exchange
    const diagnosis::Diagnosis diagnosis = Diagnose(made);
    const Named named = Judge(made, diagnosis);
    if (before != Before::kNothing) ++by_fault_[shape.topology + " " + shape.fault].of(named);
    ++by_before_[before].of(named);
    const bool right =
        named == Named::kAlone || named == Named::kHarmless || (before == Before::kNothing && named == Named::kAmong);
    if (right || misses_ == 0) return;
    --misses_;
    PrintMiss(made, shape, Compare(made.truth, diagnosis));
  }

  const Options& options_;
  std::uint64_t misses_;
  std::map<std::string, Row> by_fault_;
  std::map<Before, Row> by_before_;
};

}  // namespace

int RunPeers(const Options& options) { return PeerJobs(options).Run(); }

}  // namespace ncclwatch::jobs
