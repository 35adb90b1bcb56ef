// A node's state in Prometheus' text format (version 0.0.4).
#pragma once

#include <string>

#include "analyzer/metrics/node_state.h"

namespace ncclwatch::analyzer {

inline constexpr char kExpositionType[] = "text/plain; version=0.0.4; charset=utf-8";
inline constexpr int kMostSeries = 300;  // of a node, whatever the job

// What does not fit into kMostSeries is left out, the ranks' own numbers first; ncclwatch_series_left_out counts it.
std::string Exposition(const NodeState& state);

}  // namespace ncclwatch::analyzer
