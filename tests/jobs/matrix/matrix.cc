#include <cstdio>
#include <map>

#include "core/diagnose.h"
#include "simulation/chance.h"
#include "tests/jobs/matrix/judge.h"
#include "tests/jobs/matrix/modes.h"
#include "tests/jobs/simulator/topology.h"

namespace ncclwatch::jobs {
namespace {

class Matrix {
 public:
  explicit Matrix(const Options& options) : options_(options) {}

  int Run() {
    const std::uint64_t first = options_.Number("first", 1), seeds = options_.Number("seeds", 10);
    for (const std::string& fault : options_.List("fault", FaultNames()))
      for (const std::string& topology : options_.List("topology", TopologyNames()))
        for (const std::string& ranks : options_.List("ranks", {"8", "16", "32"}))
          for (std::uint64_t seed = first; seed < first + seeds; ++seed)
            One({.topology = topology, .fault = fault, .ranks = std::atoi(ranks.c_str()), .seed = seed});
    const Tally all = Print();
    const double least = std::strtod(options_.Text("least", "99.5").c_str(), nullptr);
    return all.all() > 0 && all.of(Verdict::kWrongCertain) + earlier_.of(Verdict::kWrongCertain) == 0 &&
                   steps_.wrong == 0 && all.right_percent() >= least
               ? 0
               : 1;
  }

 private:
  void One(const Shape& shape) {
    Generated made;
    if (!Generate(shape, &made)) return;  // no topology can have every fault
    const diagnosis::Diagnosis diagnosis = Diagnose(made);
    const Judged judged = Compare(made.truth, diagnosis);
    CheckSteps(made, shape, diagnosis);
    ++by_fault_[shape.fault].of(judged.verdict);
    ++by_topology_[shape.topology].of(judged.verdict);
    ++by_ranks_[shape.ranks].of(judged.verdict);
    if (judged.verdict != Verdict::kRight && ++misses_[shape.fault] <= static_cast<int>(options_.Number("misses", 20)))
      PrintMiss(made, shape, judged);
    Earlier(shape, &made);
  }

  // At any instant before: what is said must not be wrong, and nothing need be said.
  void Earlier(const Shape& shape, Generated* made) {
    const std::int64_t now = made->now;
    made->verdict = false;
    made->truth.silence = true;
    made->now = Chance(shape.seed).Between(kMilli, std::max(2 * kMilli, now), 0xea41);
    const Judged judged = Compare(made->truth, Diagnose(*made), /*partly=*/true);
    ++earlier_.of(judged.verdict);
    if (judged.verdict == Verdict::kRight) return;
    if (++earlier_misses_ > static_cast<int>(options_.Number("misses", 20))) return;
    PrintMiss(*made, shape, judged);
    std::printf("    earlier: --at %lld\n", static_cast<long long>(made->now));
  }

  void CheckSteps(const Generated& made, const Shape& shape, const diagnosis::Diagnosis& diagnosis) {
    for (const diagnosis::Finding& finding : diagnosis.findings) {
      if (!finding.position) continue;
      ++steps_.findings;
      if (!finding.step) continue;
      ++steps_.named;
      steps_.exact += finding.step->exact ? 1 : 0;
      steps_.calls += finding.step->call ? 1 : 0;
      const std::string wrong = WrongStep(made, finding);
      if (wrong.empty()) continue;
      ++steps_.wrong;
      std::printf("wrong step: %s --out DIR\n    said %s\n", CommandOf(shape).c_str(), wrong.c_str());
    }
  }

  Tally Print() const {
    Tally all;
    PrintHead("fault");
    for (const auto& [name, tally] : by_fault_) PrintRow(name, tally);
    PrintHead("topology");
    for (const auto& [name, tally] : by_topology_) PrintRow(name, tally);
    PrintHead("ranks");
    for (const auto& [ranks, tally] : by_ranks_) PrintRow(std::to_string(ranks), tally);
    for (const auto& [name, tally] : by_fault_) all.Add(tally);
    PrintRow("all", all);
    PrintHead("once more, at any instant");
    PrintRow("all", earlier_);
    std::printf("steps: of %d findings with a position %d name one, %d exactly, %d with the call; %d wrong\n",
                steps_.findings, steps_.named, steps_.exact, steps_.calls, steps_.wrong);
    return all;
  }

  const Options& options_;
  std::map<std::string, Tally> by_fault_, by_topology_;
  std::map<int, Tally> by_ranks_;
  std::map<std::string, int> misses_;
  Tally earlier_;
  int earlier_misses_ = 0;
  struct {
    int findings = 0, named = 0, exact = 0, calls = 0, wrong = 0;
  } steps_;
};

}  // namespace

int RunMatrix(const Options& options) { return Matrix(options).Run(); }

}  // namespace ncclwatch::jobs
