// What if nobody were slow: how much faster a recorded job would be without stragglers, and who costs how much.
//
// The metrics are those of X. Zheng et al., "Understanding Stragglers in Large Model Training Using What-if Analysis":
// S (equation 1), S_t of a type of operation (2), S_w of a worker (4), M_W (5) and M_S (section 5.2).
#pragma once

#include <absl/functional/function_ref.h>
#include <absl/status/status.h>

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/ideal/model.h"

namespace ncclwatch::analyzer::ideal {

struct Slowdown {
  std::string of;       // a type of operation
  int number = -1;      // a rank or a stage
  double slowdown = 1;  // of a step, if this alone stays as it was recorded and all others are ideal
};

struct Result {
  double recorded_s = 0;  // mean of a step by the recorded instants
  double actual_s = 0;    // ... if operations follow one another without delay and last as long as they did
  double ideal_s = 0;     // ... if each lasts as long as those alike
  std::size_t steps = 0;
  std::vector<Slowdown> ops, ranks, stages;  // ranks and stages in their order, ops by what they cost
  std::vector<int> worst_ranks;              // 3 % of them, at least one; ascending
  int worst_rank = -1;
  // What of the slowdown is gone if they alone are ideal: M_W and M_S. None: there is no slowdown, or no stages.
  std::optional<double> worst_ranks_explain, worst_rank_explains, last_stage_explains;
  bool by_grid = false;  // a rank's slowdown is the smaller of those of its row and its column, not its own run
  std::vector<std::string> notes;
  double slowdown() const { return ideal_s > 0 ? actual_s / ideal_s : 1; }
};

// `done` is called with the share that is done.
Result Analyze(const Model& model, absl::FunctionRef<void(double)> done);

nlohmann::ordered_json ToJson(const Result& result);
// One table, and one sentence that names the cause.
std::string ToText(const Result& result);
std::string Verdict(const Result& result);

// The ideal job as a trace that Perfetto and chrome://tracing open (JSON, gzipped where the name ends in .gz).
absl::Status WriteTimeline(const Model& model, const std::string& path);

}  // namespace ncclwatch::analyzer::ideal
