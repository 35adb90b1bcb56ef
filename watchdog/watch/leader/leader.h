// What the holder of the lease does: follows every process of the node, judges when something is suspicious, and acts
// on the verdict. Lives from taking the lease to losing it. One thread.
#pragma once

#include <poll.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/live/live_compare.h"
#include "core/model/finding.h"
#include "core/model/snapshot.h"
#include "watchdog/watch/base/context.h"
#include "watchdog/watch/base/journal.h"
#include "watchdog/watch/base/lease.h"
#include "watchdog/watch/cluster/coordinator.h"
#include "watchdog/watch/leader/slow_watch.h"
#include "watchdog/watch/leader/verdict.h"
#include "watchdog/watch/node/crash_run.h"
#include "watchdog/watch/node/evidence_run.h"
#include "watchdog/watch/node/machine_run.h"
#include "watchdog/watch/node/names_run.h"
#include "watchdog/watch/node/node_processes.h"
#include "watchdog/watch/node/node_steps.h"

namespace ncclwatch::watch {

class Leader {
 public:
  // environment: for the hook.
  Leader(const Context& context, LeaseFile* lease, const std::vector<std::string>* environment);

  ~Leader();
  Leader(const Leader&) = delete;
  Leader& operator=(const Leader&) = delete;

  // Handed over by the follower that this process was: what it has of the leader before.
  void Remember(std::int32_t pid, int pidfd, const std::string& memory_group, const evidence::MemoryKills& kills) {
    group_wait_.Remember(pid, pidfd, memory_group, kills);
  }

  // Looks at what is due. gap_ns: how long this thread did not run although it wanted to.
  void Tick(std::int64_t now_ns, std::int64_t gap_ns);
  // Before this process ends.
  void TickOnceMore(std::int64_t now_ns);
  void AddPollFds(std::vector<pollfd>* fds) const { group_wait_.AddPollFds(fds); }
  // The process is about to end: what was told to other nodes is given time to leave.
  void Linger();
  // The job is to be ended and the evidence is saved: everyone ends, this process last.
  bool Ending() const { return ending_; }
  // Ends the job without asking why: on another node's word.
  void BeginEnding(std::int64_t now_ns);
  // After Ending: ends those that do not end themselves. True once nobody is left.
  bool EndOthers(std::int64_t now_ns);

 private:
  struct ShouldDiagnose {
    bool new_deaths = false, deaths = false, mismatch = false, stall = false, held = false, misuse = false,
         standing = false;
    bool any() const { return deaths || mismatch || stall || held || misuse || standing; }
    std::string Text() const;
  };

  struct Round {  // of asking other nodes before the job is judged
    ShouldDiagnose ripe;
    int asked = 0;
    bool asked_for_all = false;
    std::int64_t began_ns = 0;  // the instant that was judged first
    std::int64_t asked_ns = 0;  // others were asked first; what they answer reaches to this instant at least
    bool first_look = false;    // nobody has been asked yet
  };

  // One of several nodes: leader_nodes.cc.
  void Meet(std::int64_t now_ns);
  void TakeVerdictBroadcast(const nodes::VerdictBroadcast& word);
  void ShowWord(const nodes::VerdictBroadcast& word);
  diagnosis::Diagnosis DiagnoseJob(const diagnosis::Snapshot& snapshot) const;
  bool OwnBoxesSayAsMuch() const;
  bool MayEnd(std::int64_t now_ns);
  void SayToAll(std::int64_t at_ns);
  bool KnowsMore(const diagnosis::Diagnosis& diagnosis) const;
  void TakeAction(const nodes::Action& action);
  bool TellHubOfStacks(std::int64_t verdict_at_ns, const std::vector<reader::ProcessStacks>& stacks);
  void AddStacks(std::vector<reader::ProcessStacks> more, std::int64_t at_ns);
  void KeepWord(const nodes::VerdictBroadcast& word) const;
  bool RecallWord(const reader::LeaderState& last);
  bool DiagnosesItself() const;
  void LookForHub(std::int64_t now_ns, const ShouldDiagnose& ripe);
  void LookForBoxlessRanks(std::int64_t now_ns);
  void BeginRound(std::int64_t now_ns, const ShouldDiagnose& ripe);
  void ContinueRound(std::int64_t now_ns);
  void AskOrDiagnose(std::int64_t now_ns, const diagnosis::Diagnosis& known, std::int64_t at_ns);
  // Of this node's boxes, or of all nodes where this is the hub.
  const std::vector<diagnosis::LiveCompare::Suspicion>& Suspicions() const;
  void Acknowledge(std::uint64_t communicator, std::int64_t now_ns);
  std::int64_t QuietSince() const;
  std::optional<diagnosis::LiveCompare::Front> FrontOf(std::uint64_t communicator) const;
  int Deaths() const;
  int DeathsElsewhere();
  bool IsGone(std::int32_t rank) const;

  void LogOutcome(const std::string& outcome);
  void TakeOver(std::int64_t now_ns);
  void Learn(std::int64_t now_ns);
  ShouldDiagnose WhatIsRipe(std::int64_t now_ns, int new_deaths);
  bool RipeMismatch(std::int64_t now_ns);
  bool RipeStall(std::int64_t now_ns);
  bool RipeHeld(std::int64_t now_ns);
  bool RipeMisuse(std::int64_t now_ns) const;
  std::uint64_t MisusesSaid() const;
  bool RipeDeath(std::int64_t now_ns, int new_deaths);
  void Diagnose(std::int64_t now_ns, const ShouldDiagnose& ripe);
  bool Follow(const diagnosis::Diagnosis& diagnosis, std::int64_t at_ns);
  void BeatInBetween() const;
  // others: of the other nodes too, where this is the hub.
  diagnosis::Snapshot TakeSnapshot(std::int64_t now_ns, std::uint64_t max_calls, bool others = true) const;
  Since SinceVerdict() const;
  void Publish(const diagnosis::Diagnosis& diagnosis, std::int64_t now_ns, bool first);
  void Say(std::int64_t at_ns, bool first);
  void StartHook();
  void StartCollector();
  void StartMetrics();
  void SayWhatWaits();
  bool MayBeKnownSoon(const diagnosis::Diagnosis& diagnosis, std::int64_t now_ns) const;
  void Withdraw(const diagnosis::Diagnosis& diagnosis);
  void SetVerdictAt(std::int64_t at_ns);
  // The verdict as judged, with the stacks that were taken for it. False if this process has been overtaken: the
  // verdict is another's now.
  bool WriteVerdict(const diagnosis::Diagnosis& judged, std::int64_t at_ns);
  diagnosis::Diagnosis WithStacks(diagnosis::Diagnosis judged) const;
  void LookAfterEvidence();
  // What slows a job that goes on: leader_slow.cc.
  void FollowSteps(std::int64_t now_ns);
  void LookForSlowness(std::int64_t now_ns);
  // What went wrong with machines: leader_machine.cc.
  void FollowMachines(std::int64_t now_ns);
  bool KeepMachine(reader::MachineSample look);
  void RetellWithMachines();
  // The hub, another node, has told the standing verdict: this node shows it as it was told.
  bool IsHubsVerdict() const { return job_verdict_ && !job_.IsHub(); }
  EvidenceRequest Request() const;
  void SayNotHere(const diagnosis::Culprit& culprit) const;
  void SaveEvidence();
  void TakeIn(Stacks stacks);
  bool AwaitsStacks(std::int64_t now_ns) const;
  void EndIfDue(std::int64_t now_ns);
  static bool IsHeld(const Member& member);
  void Announce(std::int64_t now_ns);
  void AnnounceJob(std::int64_t now_ns);
  std::string WatchingLine(std::size_t seen, std::size_t size) const;
  std::string UnseenNote() const;

  const Context& context_;
  LeaseFile* lease_;
  const std::vector<std::string>* environment_;
  Journal journal_;
  EvidenceRun evidence_;
  CrashRun crashes_;
  NodeSteps steps_;
  SlowWatch slow_;
  std::vector<diagnosis::IgnoreLine> ignore_;
  MachineRun machine_;
  NamesRun names_;
  std::vector<reader::MachineSample> machines_;  // by the order in which they came, without figures
  std::unique_ptr<diagnosis::LiveCompare> compare_;
  NodeProcesses group_wait_;
  ClusterCoordinator job_;
  std::optional<Round> round_;
  bool unsaid_ = false;  // the standing verdict is in the files; it is said with what the other nodes answer
  int deaths_in_table_ = 0;
  int completions_ = 0;           // of the standing verdict, since it was first told
  bool job_verdict_ = false;      // the standing one is on the whole job
  bool unproven_ = false;         // ... and may rest on what strangers have said
  bool own_boxes_agree_ = false;  // then: evidence is saved, as for one that does not
  std::int64_t compared_own_ns_ = 0;
  std::string shown_;                  // of such a word of another hub
  std::uint64_t asked_from_afar_ = 0;  // request for evidence (format::Lease::evidence_wanted) that another node made

  diagnosis::Limits limits_;
  std::int64_t longest_wait_ns_ = 0;  // earlier leaders' included
  std::uint64_t earlier_waits_ = 0;
  std::optional<PublishedVerdict> published_;
  std::optional<diagnosis::Diagnosis> reported_;  // the standing verdict as judged, without stacks
  std::vector<reader::ProcessStacks> stacks_;     // of its culprits
  std::optional<std::uint64_t> requests_;         // for evidence, that have been taken up
  int deaths_at_verdict_ = 0;
  std::map<std::uint64_t, std::pair<std::uint64_t, std::int64_t>> suspected_;  // communicator -> position, first seen

  int undiagnosed_deaths_ = 0;  // that wait for frames of a crash
  bool taken_over_ = false;
  std::int64_t took_over_ns_ = 0;
  bool was_off_ = false;
  bool said_no_room_ = false;
  std::string ripe_text_, logged_outcome_;  // why the job was last looked at closely, and what came of it
  std::int64_t logged_suspect_after_ns_ = 0;
  bool said_no_stacks_ = false;
  bool said_unexplained_ = false;
  bool ending_ = false;
  std::int64_t not_before_ns_ = 0;  // no diagnosis by the clock until then: this thread was held up
  std::int64_t compared_ns_ = 0;
  std::int64_t scanned_ns_ = 0;
  std::int64_t learned_ns_ = 0;
  std::int64_t looked_silent_ns_ = 0;
  std::int64_t looked_boxless_ns_ = 0;
  std::int64_t diagnosed_ns_ = 0;
  std::int64_t diagnosing_took_ns_ = 0;
  std::int64_t stall_next_ns_ = 0;  // a quiet time that the diagnosis finds nothing in is looked at again then
  int stall_looks_ = 0;
  std::int64_t held_since_ns_ = 0;  // the quiet time that was looked at for a cycle of calls
  std::size_t held_looks_ = 0;
  std::uint64_t misuses_diagnosed_ = 0;
  std::int64_t misuse_again_ns_ = 0;  // 0: not again
  std::int64_t save_began_ns_ = 0;
  unsigned quick_looks_ = 0;
  std::int64_t ready_ns_ = 0;  // first communicator seen ready
  std::int64_t end_at_ns_ = 0;
  std::set<std::int32_t> killed_;  // processes that did not end themselves
};

}  // namespace ncclwatch::watch
