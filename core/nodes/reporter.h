// The node's side: decides what of NodeNow is news for the hub, and writes it. One object for one session after
// another; one thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "core/nodes/bytes.h"
#include "core/nodes/summary.h"

namespace ncclwatch::nodes {

struct Pace {
  std::int64_t every_ns = 1'000'000'000;
  std::int64_t urgent_every_ns = 100'000'000;  // even where everything is urgent
  std::int64_t still_ns = 300'000'000;         // in one call for so long: said at once
};

class Reporter {
 public:
  explicit Reporter(const Pace& pace = {}) : pace_(pace) {}

  // The hub knows nothing: the next message begins a session. `session` must differ from the one before.
  void Begin(std::uint32_t session);

  // The messages that are due, usually none or one, to be called about every 0.1 s. Each is at most kMostBody bytes,
  // unless one process alone needs more.
  std::vector<std::string> Look(const NodeNow& now);

  static constexpr std::size_t kMostBody = 256u << 10;

 private:
  // What counts as a member's progress.
  struct Progress {
    format::CommunicatorState state{};
    std::uint64_t entered = 0, returned = 0;
    bool outstanding = false;
    std::uint64_t creations = 0, empties = 0, sends = 0, receives = 0;
    bool operator==(const Progress&) const = default;
    bool Pending() const {
      return returned < entered || outstanding || state == format::CommunicatorState::kInitializing;
    }
  };
  struct Member {
    bool known = false;  // to the hub
    std::uint32_t generation = 0;
    std::uint64_t id = 0;
    std::string gpu;
    std::string label;
    Progress seen, reported;
    std::int64_t since_ns = 0;   // when `seen` changed
    Check reported_check, pace;  // pace: the roundest one since the last message, position 0 for none
    bool reported_last = false;
  };
  struct Process {
    std::uint64_t number = 0;
    bool known = false;
    format::ProcessState reported_state = format::ProcessState::kRunning;
    bool reported_watching = true;
    std::uint64_t reported_words = 0;
    std::size_t reported_observations = 0;
    std::int64_t reported_inside_ns = 0;
    bool reported_environment = false;
    std::map<std::uint32_t, Member> members;  // by index in the box's table
  };
  using Key = std::tuple<std::uint64_t, std::uint64_t, std::uint32_t>;  // namespace, start time, pid

  Process* Of(const ProcessNow& now);
  enum class Urgency { kNone, kSoon, kNow };
  Urgency See(const NodeNow& now);
  bool SeeMember(const MemberNow& now, std::int64_t now_ns, Member* member) const;
  bool StandsStill(const Member& member, std::int64_t now_ns) const;
  bool IsNews(const MemberNow& now, const Member& member, std::int64_t now_ns) const;
  std::int64_t InsideForLong(const ProcessNow& now, std::int64_t now_ns) const;
  static bool HasNews(const ProcessNow& now, const Process& process);
  void WriteHead(const NodeNow& now, Writer* to);
  void WriteProcess(const ProcessNow& now, std::int64_t now_ns, bool urgent, Process* process, Writer* to);
  void WriteFacts(const ProcessNow& now, bool same_node, Writer* to);
  void WriteEnvironment(const ProcessNow& now, Writer* to);
  void WriteMember(const MemberNow& now, std::int64_t now_ns, Member* member, Writer* to);
  std::uint8_t WriteCheck(const MemberNow& now, std::int64_t now_ns, Member* member, Writer* to);

  Pace pace_;
  std::uint32_t session_ = 0;
  std::uint64_t sequence_ = 0;
  bool begins_ = true;
  std::map<Key, Process> processes_;
  std::map<std::uint64_t, Check> said_;             // by communicator: the check last written into this message
  const ProcessNow* facts_before_ = nullptr;        // in this message
  const ProcessNow* environment_before_ = nullptr;  // likewise
  std::vector<std::uint64_t> reported_suspicious_;
  std::int64_t reported_ns_ = 0, urgent_ns_ = 0;
};

}  // namespace ncclwatch::nodes
