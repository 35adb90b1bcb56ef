// What the holder of the lease does: follows every process of the node, judges when something is suspicious, and acts
// on the verdict. Lives from taking the lease to losing it. One thread.
#pragma once

#include <poll.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "watchdog/diagnosis/diagnose.h"
#include "watchdog/diagnosis/live_compare.h"
#include "watchdog/watch/context.h"
#include "watchdog/watch/crowd.h"
#include "watchdog/watch/journal.h"
#include "watchdog/watch/lease.h"
#include "watchdog/watch/verdict.h"

namespace ncclwatch::watch {

class Leader {
 public:
  // environment: for the hook.
  Leader(const Context& context, LeaseFile* lease, const std::vector<std::string>* environment);

  ~Leader();
  Leader(const Leader&) = delete;
  Leader& operator=(const Leader&) = delete;

  // Handed over by the follower that this process was: the pidfd of the leader before.
  void Remember(std::int32_t pid, int pidfd) { crowd_.Remember(pid, pidfd); }

  // Looks at what is due. gap_ns: how long this thread did not run although it wanted to.
  void Tick(std::int64_t now_ns, std::int64_t gap_ns);
  void AddPollFds(std::vector<pollfd>* fds) const { crowd_.AddPollFds(fds); }
  // The job is to be ended and the evidence is saved: everyone ends, this process last.
  bool Ending() const { return ending_; }
  // After Ending: ends those that do not end themselves. True once nobody is left.
  bool EndOthers(std::int64_t now_ns);

 private:
  struct Ripe {
    bool new_deaths = false, deaths = false, mismatch = false, stall = false, standing = false;
    bool any() const { return deaths || mismatch || stall || standing; }
  };

  void TakeOver(std::int64_t now_ns);
  void Learn(std::int64_t now_ns);
  Ripe WhatIsRipe(std::int64_t now_ns, int new_deaths);
  bool RipeMismatch(std::int64_t now_ns);
  bool RipeStall(std::int64_t now_ns);
  bool RipeDeath(std::int64_t now_ns, int new_deaths);
  void Judge(std::int64_t now_ns, const Ripe& ripe);
  bool Follow(const diagnosis::Diagnosis& diagnosis, std::int64_t at_ns);
  diagnosis::Snapshot TakeSnapshot(std::int64_t now_ns, std::uint64_t max_calls) const;
  Since SinceVerdict() const;
  void Publish(const diagnosis::Diagnosis& diagnosis, std::int64_t now_ns, bool first);
  void Withdraw(const diagnosis::Diagnosis& diagnosis);
  void SetVerdictAt(std::int64_t at_ns);
  // False if this process has been overtaken: the verdict is another's now.
  bool WriteVerdict(const diagnosis::Diagnosis& diagnosis, const std::string& text, std::int64_t at_ns);
  void SaveEvidence(const diagnosis::Diagnosis& diagnosis);
  void Announce(std::int64_t now_ns);
  std::string UnseenNote() const;

  const Context& context_;
  LeaseFile* lease_;
  const std::vector<std::string>* environment_;
  Journal journal_;
  std::unique_ptr<diagnosis::LiveCompare> compare_;
  Crowd crowd_;

  diagnosis::Limits limits_;
  std::int64_t longest_wait_ns_ = 0;  // earlier leaders' included
  std::uint64_t earlier_waits_ = 0;
  std::optional<Standing> standing_;
  int deaths_at_verdict_ = 0;
  std::map<std::uint64_t, std::pair<std::uint64_t, std::int64_t>> suspected_;  // communicator -> position, first seen

  bool taken_over_ = false;
  std::int64_t took_over_ns_ = 0;
  bool was_off_ = false;
  bool said_no_room_ = false;
  bool ending_ = false;
  std::int64_t not_before_ns_ = 0;  // no judgement by the clock until then: this thread was held up
  std::int64_t compared_ns_ = 0;
  std::int64_t scanned_ns_ = 0;
  std::int64_t learned_ns_ = 0;
  std::int64_t looked_silent_ns_ = 0;
  std::int64_t looked_unborn_ns_ = 0;
  std::int64_t judged_ns_ = 0;
  std::int64_t judging_took_ns_ = 0;
  std::int64_t stall_next_ns_ = 0;  // a quiet time that the diagnosis finds nothing in is looked at again then
  int stall_looks_ = 0;
  std::int64_t save_began_ns_ = 0;
  unsigned quick_looks_ = 0;
  std::int64_t ready_ns_ = 0;  // first communicator seen ready
  std::int64_t end_at_ns_ = 0;
  std::shared_ptr<std::atomic<bool>> saved_;
};

}  // namespace ncclwatch::watch
