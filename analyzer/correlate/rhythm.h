// Whether failures come in a rhythm, in clusters, or by chance; and where there are more than chance has it. Pure.
#pragma once

#include <string>
#include <vector>

#include "analyzer/correlate/history.h"

namespace ncclwatch::correlate {

struct Rhythm {
  std::string pattern = "too_few";  // periodic, clustered, irregular, too_few
  double interval_s = 0;            // the period, or the median between two failures
};
Rhythm RhythmOf(const std::vector<Event>& failures);

struct Cluster {
  std::string by, value;  // "host", "gpu17"; "time", "2026-11-20" or "03:00 UTC"; "job", "4711"
  std::size_t failures = 0;
  double expected = 0, p_adjusted = 1;
};
// Those that are significant, the least p first. Hosts and jobs are those that any event names, and count alike.
std::vector<Cluster> FindClusters(const History& history);

}  // namespace ncclwatch::correlate
