// A history of events, in any of its forms. What must hold: shares and probabilities are some, whatever is in the file.
#include "analyzer/correlate/precursors.h"
#include "analyzer/correlate/rhythm.h"
#include "tests/fuzz/scratch_file.h"

using namespace ncclwatch;
using testing::Require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto [one, other] = testing::Halves(data, size);
  correlate::History history;
  for (const std::string_view text : {one, other})
    correlate::AddFile(testing::WriteScratch("history.jsonl", text), &history).IgnoreError();
  Settle(&history);
  for (const correlate::Precursor& found : correlate::FindPrecursors(history, 600)) {
    Require(found.cases <= found.of && found.of <= history.failures.size() && found.events <= history.events.size());
    Require(found.risk_ratio >= 0 && found.low >= 0 && found.low <= found.high);
    if (found.p) Require(*found.p > 0 && *found.p <= 1 && *found.p_adjusted >= *found.p && *found.p_adjusted <= 1);
  }
  Require(correlate::RhythmOf(history.failures).interval_s >= 0);
  for (const correlate::Cluster& cluster : correlate::FindClusters(history))
    Require(cluster.p_adjusted >= 0 && cluster.p_adjusted <= 1 && cluster.failures <= history.failures.size());
  return 0;
}
