// matrix [--fault A,B] [--topology A,B] [--ranks 8,16] [--seeds N] [--first S] [--misses N]: every fault on every
// topology; what the diagnosis says held against the truth, as a table, and the misses with the command that repeats
// each. Exit status 1 if a wrong verdict was called certain, or fewer than --least percent (99.5) were right.
#include <algorithm>
#include <cstdio>
#include <map>

#include "tests/jobs/judge.h"
#include "tests/jobs/options.h"
#include "tests/jobs/topology.h"

namespace ncclwatch::jobs {
namespace {

struct Tally {
  int count[kVerdicts] = {};
  int& of(Verdict verdict) { return count[static_cast<int>(verdict)]; }
  int of(Verdict verdict) const { return count[static_cast<int>(verdict)]; }
  int all() const {
    int sum = 0;
    for (const int part : count) sum += part;
    return sum;
  }
  void Add(const Tally& other) {
    for (int i = 0; i < kVerdicts; ++i) count[i] += other.count[i];
  }
};

void PrintRow(const std::string& name, const Tally& tally) {
  std::printf("%-28s %7d %7d %7d %7d %7d %7d  %6.2f %%\n", name.c_str(), tally.all(), tally.of(Verdict::kRight),
              tally.of(Verdict::kSilent), tally.of(Verdict::kWrong), tally.of(Verdict::kOverCertain),
              tally.of(Verdict::kWrongCertain),
              tally.all() == 0 ? 100.0 : 100.0 * tally.of(Verdict::kRight) / tally.all());
}

void PrintHead(const char* what) {
  std::printf("%-28s %7s %7s %7s %7s %7s %7s  %8s\n", what, "jobs", "right", "silent", "wrong", "over", "certain",
              "right");
}

const char* NameOf(Verdict verdict) {
  constexpr const char* kNames[] = {"right", "silent", "wrong", "over-certain", "WRONG AND CERTAIN"};
  return kNames[static_cast<int>(verdict)];
}

class Matrix {
 public:
  explicit Matrix(const Options& options) : options_(options) {}

  int Run() {
    for (const std::string& fault : options_.List("fault", FaultNames()))
      for (const std::string& topology : options_.List("topology", TopologyNames())) Cell(fault, topology);
    PrintHead("fault");
    Tally all;
    for (const auto& [name, tally] : by_fault_) PrintRow(name, tally);
    for (const auto& [name, tally] : by_fault_) all.Add(tally);
    PrintHead("topology");
    for (const auto& [name, tally] : by_topology_) PrintRow(name, tally);
    PrintRow("all", all);
    const double right = all.all() == 0 ? 0 : 100.0 * all.of(Verdict::kRight) / all.all();
    return all.of(Verdict::kWrongCertain) == 0 && right >= std::strtod(options_.Text("least", "99.5").c_str(), nullptr)
               ? 0
               : 1;
  }

 private:
  void Cell(const std::string& fault, const std::string& topology) {
    const std::uint64_t first = options_.Number("first", 1), seeds = options_.Number("seeds", 10);
    for (const std::string& ranks : options_.List("ranks", {"8", "16", "32"}))
      for (std::uint64_t seed = first; seed < first + seeds; ++seed)
        One({.topology = topology, .fault = fault, .ranks = std::atoi(ranks.c_str()), .seed = seed});
  }

  void One(const Shape& shape) {
    Generated made;
    if (!Generate(shape, &made)) return;
    const Judged judged = Compare(made.truth, Diagnose(made));
    ++by_fault_[shape.fault].of(judged.verdict);
    ++by_topology_[shape.topology].of(judged.verdict);
    if (judged.verdict == Verdict::kRight || ++misses_[shape.fault] > static_cast<int>(options_.Number("misses", 20)))
      return;
    std::printf("%s: %s --out DIR\n    said %s; %s\n", NameOf(judged.verdict), CommandOf(shape).c_str(),
                judged.said.c_str(), made.truth.story.c_str());
    std::fflush(stdout);
  }

  const Options& options_;
  std::map<std::string, Tally> by_fault_, by_topology_;
  std::map<std::string, int> misses_;
};

}  // namespace
}  // namespace ncclwatch::jobs

int main(int argc, char** argv) {
  const ncclwatch::jobs::Options options(argc, argv);
  return ncclwatch::jobs::Matrix(options).Run();
}
