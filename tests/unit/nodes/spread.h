// A job of the builder spread over nodes, as if each few of its ranks ran on a machine of their own: own boot, own
// clock, own name, and process ids that are taken on every node.
#pragma once

#include <string>
#include <vector>

#include "core/nodes/summary.h"
#include "tests/unit/support/job_builder.h"

namespace ncclwatch::testing {

struct SpreadNode {
  std::string name;
  std::int64_t ahead_ns = 0;  // its CLOCK_MONOTONIC minus the first node's
  std::vector<reader::BoxImage> boxes;
};

// Ranks 0 to per_node - 1 are on the first node, whose clock is the builder's. Observations are in the box of the first
// rank of the observed one's node that lives.
std::vector<SpreadNode> Spread(const Job& job, int per_node);

// What the node's leader sees in its boxes.
nodes::NodeNow NowOf(const SpreadNode& node, std::int64_t now_ns);

}  // namespace ncclwatch::testing
