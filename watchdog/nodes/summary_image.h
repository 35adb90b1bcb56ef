// A process as its node's summaries tell it, in the form of a box: communicators with their counts and states, and the
// call in which a member has stood still. What a summary does not say it does not invent: such an image is marked, and
// the counts of its messages are taken for unknown.
#pragma once

#include <cstdint>

#include "watchdog/nodes/table.h"
#include "watchdog/reader/image.h"

namespace ncclwatch::nodes {

// now_ns: the hub's. The heartbeat is as old as it was when it was told, unless the node is not heard of any more.
reader::BoxImage ThinImage(const Table::Node& node, const ProcessRow& row, std::int64_t now_ns);

}  // namespace ncclwatch::nodes
