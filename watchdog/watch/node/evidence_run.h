// Evidence that the leader has asked for: what /proc says of processes, stacks by the separate program, copies to a
// durable place. All of it happens in threads beside the heartbeat, one run after the other; the leader looks in at
// every tick.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/reader/stacks.h"
#include "watchdog/act/dump.h"
#include "watchdog/act/stacks.h"

namespace ncclwatch::watch {

struct EvidenceRequest {
  std::int64_t verdict_at_ns = 0;         // that it is for; 0: asked for while nothing is wrong
  std::uint64_t request = 0;              // that it answers too (format::Lease::evidence_wanted)
  act::Dump dump;                         // suspects: whose state is written down
  std::vector<act::StackTarget> targets;  // culprits first
};

struct Stacks {
  std::int64_t verdict_at_ns = 0;
  std::vector<reader::ProcessStacks> processes;
  std::string complaint;  // one line; empty: there are stacks of all
};

class EvidenceRun {
 public:
  // environment: outlives this.
  EvidenceRun(std::string command, const std::vector<std::string>* environment)
      : command_(std::move(command)), environment_(environment) {}

  // Begins at once, or when the present run is done; of several that wait the last one counts.
  void Ask(EvidenceRequest request);
  // Goes on to what is next. Once for each run: what its stacks tell. To be written into the verdict before the next
  // call, which copies everything to the durable place.
  std::optional<Stacks> Tick();
  // Everything that was asked for is where it belongs, or cannot be had.
  bool Saved() const { return !state_ && !next_; }
  // The newest request that has been answered.
  std::uint64_t answered() const { return answered_; }

 private:
  struct State;
  void Begin(EvidenceRequest request);

  std::string command_;
  const std::vector<std::string>* environment_;
  std::shared_ptr<State> state_;  // shared with the threads of the present run
  std::optional<EvidenceRequest> next_;
  std::uint64_t answered_ = 0;
};

}  // namespace ncclwatch::watch
