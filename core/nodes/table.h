// The hub's table: everyone of the job as the summaries of the nodes tell it. Says cheaply, as LiveCompare does for the
// boxes of one node, what is worth a diagnosis: it decides nothing. Instants are the hub's CLOCK_MONOTONIC unless they
// are said to be a node's. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/live/live_compare.h"
#include "core/nodes/bytes.h"
#include "core/nodes/summary.h"
#include "ncclwatch/format/lease.h"

namespace ncclwatch::nodes {

struct MemberRow {
  MemberNow now;  // without pace; `chain` only where `check` is at `entered`; `last` is in its own place
  std::optional<Check> check;
  std::int64_t since_ns = 0;  // the node's: its progress changed
  std::unique_ptr<reader::Call> last;
};

struct ProcessRow {
  ProcessNow now;                // without members
  std::int64_t reported_ns = 0;  // the node's: when the heartbeat was as told
  std::size_t words_made = 0;    // bytes of memory, about
  bool gone = false;             // observed, by whichever leader of the node
  std::uint32_t place() const { return format::PidPlace(now.boot_id, now.pid_namespace); }
  std::map<std::uint32_t, MemberRow> members;  // by index in the box's table
};

enum class Outcome {
  kTaken,
  kGap,      // a message before it is missing: a new session is wanted
  kDamaged,  // the same, and the node or the network is not what it should be
  kOther,    // of a version that is not spoken here
  kFull,     // there is no room for what the node tells
};

class Table {
 public:
  using Suspicion = diagnosis::LiveCompare::Suspicion;
  using Front = diagnosis::LiveCompare::Front;
  using Waits = diagnosis::LiveCompare::Waits;

  struct Node {
    std::string name;
    bool connected = false;
    std::int64_t shift_ns = 0;  // to be added to the node's instants
    bool shift_known = false;
    std::int64_t heard_ns = 0;
    std::int64_t left_ns = 0;  // 0: connected, or never left
    bool closed = false;       // it left, or its connection was closed: its machine is there
    // By communicator: how many collectives others had finished by the time it was lost.
    std::map<std::uint64_t, std::uint64_t> others_then;
    std::uint32_t session = 0;
    std::uint64_t next = 0;                         // number of the next message; 0: waits for a session to begin
    std::uint64_t revision = 0;                     // of the hub's last word that has come there
    std::map<std::uint64_t, ProcessRow> processes;  // by number in the session
    std::size_t members = 0;
    std::size_t observations = 0;
    std::size_t made = 0;              // bytes of memory for what it has told in this session, about
    bool full = false;                 // in this session
    std::int64_t inside_since_ns = 0;  // as of the last poll: the first of its processes in a call of MPI; 0: none
  };

  Table();
  ~Table();
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  // What it last told stays until it begins a new session. Where kMostNodes are known the one that has left first is
  // forgotten; if all are there, this one is not taken.
  void Join(const std::string& node, std::int64_t now_ns);
  void Leave(const std::string& node, bool closed, std::int64_t now_ns);
  void SetShift(const std::string& node, std::int64_t shift_ns);
  // The hub's own: until a node's shift is set the wall clocks give it, or its first instants would mean nothing.
  void SetWallClock(std::int64_t realtime_minus_here_ns) { realtime_minus_here_ns_ = realtime_minus_here_ns; }
  // A summary. A damaged one counts as far as it can be read, and the node's next ones not at all, until it begins a
  // new session.
  Outcome Tell(const std::string& node, std::string_view body, std::int64_t now_ns);

  // Looks at the communicators that have moved and come to rest since.
  void Poll(std::int64_t now_ns);

  // As of the last poll.
  const std::vector<Suspicion>& suspicions() const { return suspicions_; }
  void Acknowledge(std::uint64_t communicator, std::int64_t now_ns);
  std::int64_t QuietSince() const;
  // The largest communicator; the one that most have, of as large ones. None: no communicator yet.
  std::optional<Front> World() const;
  std::optional<Front> FrontOf(std::uint64_t communicator) const;
  Waits waits() const { return waits_; }
  int deaths() const { return deaths_; }
  bool IsGone(std::int32_t rank) const;

  const std::map<std::string, Node>& nodes() const { return nodes_; }
  // The node's boxes are older than what others have finished together with it: it was cut off from us, not from them.
  // Nothing can be said of its ranks then.
  bool IsOvertaken(const Node& node) const;
  // What a lost node told last is old. Collectives that the others have finished since, they have finished with it.
  void BringForward(const Node& node, reader::BoxImage* image) const;
  // Nodes with a member in the communicator, those first that are behind, dead or depart from the others.
  std::vector<std::string> Concerned(std::uint64_t communicator) const;
  // Nodes with a member in a communicator that has been quiet since then or longer, or a process in a call of MPI.
  std::vector<std::string> Quiet(std::int64_t since_ns) const;
  // Ranks of the communicator that somebody who tells of them is.
  std::set<std::uint32_t> SeenIn(std::uint64_t communicator) const;

 private:
  struct Ref {
    const Node* node = nullptr;
    const ProcessRow* process = nullptr;
    const MemberRow* member = nullptr;
  };
  struct Comm;
  struct Telling;  // one message while it is read

  bool HasRoom();
  void Forget(Node* node);
  void Charge(Node* node, std::size_t more, std::size_t less);
  bool ReadProcess(Telling* telling, std::uint64_t number);
  static bool ReadEnvironment(Telling* telling, ProcessRow* row);
  void ReadInside(Telling* telling, ProcessRow* row);
  void ReadSeen(Telling* telling, ProcessRow* row);
  void Mark(const reader::Observation& seen, bool gone);
  bool ReadMembers(Telling* telling, ProcessRow* row);
  bool ReadMember(Telling* telling, ProcessRow* process, std::uint32_t index);
  MemberRow* Renewed(Telling* telling, ProcessRow* process, const MemberNow& facts);
  void Moved(const Telling& telling, const MemberRow& row);
  void MakeSuspicions(std::int64_t now_ns);
  void NoteOthers(Node* node);
  std::uint64_t FinishedByOthers(const Node& node, std::uint64_t communicator) const;

  std::map<std::string, Node> nodes_;
  std::unordered_map<std::uint64_t, std::unique_ptr<Comm>> comms_;
  std::set<std::uint64_t> reported_suspicious_;  // by nodes, of their own members
  std::vector<Suspicion> suspicions_;
  std::set<std::pair<std::uint32_t, std::pair<std::uint32_t, std::uint64_t>>> dead_;  // place, pid, start time
  std::set<std::int32_t> dead_ranks_;
  std::optional<std::int64_t> realtime_minus_here_ns_;
  Waits waits_;
  int deaths_ = 0;
  std::size_t made_ = 0;  // of all nodes
};

}  // namespace ncclwatch::nodes
