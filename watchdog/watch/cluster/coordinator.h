// This node's leader among the leaders of the job: what it tells its hub, and, where it is the hub, the view of the
// whole job. Where there is nobody to be reached the node is judged alone, and says so once. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/nodes/hub.h"
#include "core/nodes/reporter.h"
#include "watchdog/exchange/protocol/exchange.h"
#include "watchdog/watch/base/context.h"
#include "watchdog/watch/base/journal.h"
#include "watchdog/watch/base/lease.h"
#include "watchdog/watch/cluster/coordinator_setup.h"
#include "watchdog/watch/node/node_now.h"

namespace ncclwatch::watch {

class ClusterCoordinator : public nodes::MessageSender {
 public:
  enum class Role {
    kAlone,    // this node by itself: there are no others, or none can be reached
    kLooking,  // for the others: what they may know better is not judged yet
    kMember,   // the hub judges
    kHub,
  };

  // lease: held by this leader. environment: the process's, as it was at its start.
  ClusterCoordinator(const Context& context, LeaseFile* lease, Journal* journal,
                     const std::vector<std::string>& environment);
  ~ClusterCoordinator() override;
  ClusterCoordinator(const ClusterCoordinator&) = delete;
  ClusterCoordinator& operator=(const ClusterCoordinator&) = delete;

  // What has come since; answers who asks. At every tick.
  void Receive(std::int64_t now_ns, const NodeProcesses& group_wait);
  // Tells what is news of this node. After every poll of the comparison.
  void Report(std::int64_t now_ns, const NodeProcesses& group_wait, diagnosis::LiveCompare* compare);

  Role role() const { return role_; }
  bool IsHub() const { return role_ == Role::kHub; }
  nodes::Hub& hub() { return *hub_; }  // kHub only
  const nodes::Hub& hub() const { return *hub_; }
  std::size_t nodes() const;  // that are connected, this one included
  // Strangers may have a part in what the other nodes say: on the hub in its table, elsewhere in its word.
  bool Unproven() const;

  // kMember: what the hub has said since the last call.
  std::optional<nodes::VerdictBroadcast> TakeVerdictBroadcast();
  // True once at the beginning of each reign: the word is to be said anew.
  bool TakeReign();
  // To every other node, or to the hub alone. Nothing where there is none.
  void Ask(const nodes::Action& action, bool hub_only);
  // What others have asked for, or told, since the last call.
  std::optional<nodes::Action> TakeAction();
  // kMember: the hub judges the steps of this node's ranks too.
  void TellSteps(std::string body);
  // kHub: what another node has told of its ranks' steps, since the last call.
  std::optional<std::string> TakeSteps();
  // kHub: what slows the job, to all; of the others: what the hub has said since the last call.
  void SaySlow(const std::vector<diagnosis::Finding>& findings);
  std::optional<std::vector<diagnosis::Finding>> TakeSlow();
  // kMember: what was seen of this machine, to the hub; kHub: to all. As text of reader/beside/machine.h.
  void TellMachine(std::string text);
  // What others have told so, since the last call.
  std::optional<std::string> TakeMachine();
  // kHub: to all.
  void Say(nodes::VerdictBroadcast word, std::int64_t now_ns);
  // kHub: the boxes of the other nodes, beside those of this one.
  std::vector<reader::BoxImage> OtherBoxes(const std::vector<reader::BoxImage>& own, std::int64_t now_ns) const;
  // kHub: what is to be said of nodes that are not there.
  std::vector<std::string> Notes(std::int64_t now_ns) const;
  // Everything that was told by the others is there, as far as can be known: it is a while since this hub's reign
  // began.
  bool Settled(std::int64_t now_ns) const;
  // Somebody was there a moment ago and is not heard of: what is not known may be known soon.
  bool LostLately(std::int64_t now_ns) const;
  std::set<int> LostRanks() const;  // kHub: of nodes that are not connected

  // What has been said is on its way; for a process that is about to end. A few milliseconds.
  void Linger() const;

  // What a diagnosis of this leader is filed under (format::LeaderState).
  std::uint64_t Generation() const;
  std::int64_t job_minus_monotonic_ns() const { return job_minus_here_ns_; }

 private:
  void SayAlone(const std::string& why);
  void OpenExchange();
  void KeepSecret(std::int64_t now_ns);
  bool KnowsTokens(FoundTokens* found) const;
  bool AwaitsIds(const FoundTokens& found) const;
  bool Send(const std::string& node, nodes::Kind kind, std::string body) override;
  void Take(exchange::Message message, std::int64_t now_ns, const NodeProcesses& group_wait);
  void TakeOnHub(exchange::Message message, std::int64_t now_ns);
  void KeepSteps(std::string body);
  void KeepMachine(std::string text);
  void TakeJoined(const std::string& node, bool guessable, std::int64_t now_ns);
  void SayGuessable();
  bool ProvenAreAll() const;
  void StartTableAnew(std::int64_t now_ns);
  void Answer(const exchange::Message& asked, const NodeProcesses& group_wait);
  void Settle(std::int64_t now_ns);
  void BeginReign(std::int64_t now_ns);
  void LearnClocks(nodes::Hub* hub);
  std::int64_t WallClock() const;
  void TakeFromHub(exchange::Message message, std::int64_t now_ns, const NodeProcesses& group_wait);
  void LookAfterTheLost(std::int64_t now_ns);
  void SayEarlierRuns();
  void LeaveToLaterRun(std::int64_t now_ns);
  bool CutOff(std::int64_t now_ns) const;
  std::int64_t Allowance_ns() const;  // for signs of life that come late
  std::int64_t LostAfter_ns(const nodes::Table::Node& node, std::int64_t now_ns) const;
  void LogRole() const;
  void SetRole(Role role, std::int64_t now_ns);

  const Context& context_;
  LeaseFile* lease_;
  Journal* journal_;
  const std::vector<std::string>& environment_;
  std::uint32_t generation_;
  std::optional<Plan> plan_;  // until the exchange is opened
  std::optional<TokenSearch> search_;
  std::int64_t planned_ns_ = 0;
  std::string secret_directory_, secret_name_;  // of the job's own secret, if there is one
  std::int64_t secret_kept_ns_ = 0;
  std::string own_;    // this node's name
  std::string place_;  // where the nodes meet, for people
  std::unique_ptr<exchange::Exchange> exchange_;
  Role role_ = Role::kAlone;
  std::uint64_t term_ = 0;
  std::string hub_node_;
  std::int64_t since_ns_ = 0;  // of the role
  std::int64_t reign_began_ns_ = 0;
  std::int64_t came_again_ns_ = 0;  // a node that was lost
  std::int64_t hub_lost_ns_ = 0, said_alone_ns_ = 0;
  bool new_reign_ = false;

  NodeSummarizer eyes_;
  nodes::Reporter reporter_;
  std::uint32_t session_ = 0;
  nodes::Pieces pieces_;
  std::optional<nodes::VerdictBroadcast> word_;
  std::deque<nodes::Action> actions_;
  std::deque<std::string> steps_;
  std::size_t steps_bytes_ = 0;
  std::optional<std::vector<diagnosis::Finding>> slow_;
  std::deque<std::string> machines_;
  std::uint64_t revision_ = 0;

  std::unique_ptr<nodes::Hub> hub_;
  bool only_guessable_ = false;      // there is no better token here
  bool hub_guessable_ = false;       // nor with this hub
  bool word_unproven_ = false;       // the hub's last word was
  std::set<std::string> guessable_;  // on the hub: who may be a stranger
  bool proven_are_all_ = false;      // on the hub: they are not listened to any more
  bool said_guessable_ = false;
  std::int64_t counted_proven_ns_ = 0;
  std::vector<std::string> joined_;  // on the hub: the first of them are its successors
  // What the hub tells its successors of its own node, which nobody else could say once it is gone.
  std::unique_ptr<nodes::Hub> standby_hub_;
  std::int64_t job_minus_here_ns_ = 0;
  std::int64_t late_ns_ = 0;  // by which signs of life have come too late, the most of all nodes lately
  std::int64_t clocks_ns_ = 0, lost_looked_ns_ = 0;
  std::set<std::string> said_earlier_;  // nodes of an earlier run, each named once
  std::map<std::string, bool> lost_;    // node -> its processes have been written down as lost
};

}  // namespace ncclwatch::watch
