// What the node's boxes tell a hub, read without copying them: once for each look of the reporter. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/live/live_compare.h"
#include "core/nodes/summary.h"
#include "watchdog/watch/node/node_processes.h"

namespace ncclwatch::watch {

class NodeSummarizer {
 public:
  // After crowd.DropCut() and compare->Poll(), whose paces it takes.
  nodes::NodeNow Look(std::int64_t now_ns, const NodeProcesses& group_wait, diagnosis::LiveCompare* compare);

 private:
  // What is copied out of a box again only when the box says that there is something new.
  struct Known {
    std::uint32_t observations = 0, state = 0;
    std::uint64_t words = 0;
    nodes::ProcessNow process;
  };
  std::map<std::string, Known> known_;  // by path
};

}  // namespace ncclwatch::watch
