// The steps of this node's ranks, as their boxes show them while the job runs. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/steps/step_follower.h"
#include "watchdog/watch/base/context.h"
#include "watchdog/watch/node/node_processes.h"

namespace ncclwatch::watch {

class NodeSteps {
 public:
  explicit NodeSteps(const Context& context) : context_(context) {}

  // After crowd.DropCut(). Reads what has come, as far as it costs little.
  void Poll(std::int64_t now_ns, const NodeProcesses& group_wait);
  // What is to be told; empty until it is due.
  std::vector<diagnosis::ReportedRank> Take(std::int64_t now_ns);

 private:
  struct Followed {
    std::unique_ptr<diagnosis::StepFollower> follower;
    std::uint64_t pid_namespace = 0;
    std::uint64_t find_at = 0;   // records: then it is looked for a loop
    std::size_t loops_seen = 0;  // of `loops_`, as many as there were
  };

  void FollowNew(const NodeProcesses& group_wait);
  void FindLoops(std::int64_t now_ns);
  void Learn(const diagnosis::Loop& loop);
  void FollowKnownLoop(Followed* one) const;

  const Context& context_;
  std::map<std::string, Followed> followed_;  // by path of the box
  std::vector<diagnosis::Loop> loops_;        // that were found, each communicator once
  std::int64_t find_next_ns_ = 0, reported_ns_ = 0;
};

// Steps that a rank tells in a second, by the size of the job: what a hub has to take in is bounded.
std::int64_t StepsApart_ns(std::int32_t ranks);
// Steps of a rank that a hub keeps.
std::size_t StepsKept(std::int32_t ranks);

}  // namespace ncclwatch::watch
