#include <algorithm>
#include <cstdio>

#include "core/slow/find.h"
#include "simulation/chance.h"
#include "tests/jobs/matrix/judge.h"
#include "tests/jobs/matrix/modes.h"
#include "tests/jobs/simulator/topology.h"

namespace ncclwatch::jobs {

int RunHealthy(const Options& options) {
  const std::uint64_t first = options.Number("first", 1), jobs = options.Number("jobs", 2000);
  const std::uint64_t looks = options.Number("looks", 3);
  constexpr int kRanks[] = {8, 8, 16, 16, 32, 64, 128};
  Tally all;
  std::uint64_t slow = 0;
  for (std::uint64_t seed = first; seed < first + jobs; ++seed) {
    Dice dice(seed, 0x4ea1);
    const std::vector<std::string>& topologies = TopologyNames();
    const Shape shape{.topology = topologies[seed % topologies.size()],
                      .fault = "healthy",
                      .ranks = dice.Of(kRanks, std::size(kRanks)),
                      .seed = seed};
    Generated made;
    if (!Generate(shape, &made)) return 2;
    for (std::uint64_t look = 0; look < looks; ++look) {
      // The first is the one that generate_job writes.
      if (look > 0) made.now = dice.Between(kMilli, made.world->ended() + kSecond);
      const Judged judged = Compare(made.truth, Diagnose(made));
      for (const diagnosis::Finding& finding : diagnosis::FindSlow(SnapshotOf(made))) {
        ++slow;
        std::printf("slow: %s --seed %llu: %s\n", shape.topology.c_str(), static_cast<unsigned long long>(seed),
                    finding.summary.c_str());
      }
      ++all.of(judged.verdict);
      if (judged.verdict == Verdict::kRight) continue;
      PrintMiss(made, shape, judged);
      std::printf("    --at %lld\n", static_cast<long long>(made.now));
    }
  }
  PrintHead("healthy jobs, at any instant");
  PrintRow("all", all);
  std::printf("findings about slowness: %llu\n", static_cast<unsigned long long>(slow));
  return all.of(Verdict::kRight) == all.all() && slow == 0 ? 0 : 1;
}

}  // namespace ncclwatch::jobs
