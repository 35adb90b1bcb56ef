// The hub's side: the table of the whole job, the boxes' contents that were fetched on suspicion, and the word that
// goes to all. Decides nothing: who judges asks here what is suspicious and what is known. One thread. No clock: every
// call is told the time.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/finding.h"
#include "core/nodes/messages.h"
#include "core/nodes/table.h"

namespace ncclwatch::nodes {

enum class Kind { kSummary, kFetch, kRecords, kWord };

class MessageSender {
 public:
  virtual ~MessageSender() = default;
  // False: it will not arrive. True promises nothing either.
  virtual bool Send(const std::string& node, Kind kind, std::string body) = 0;
};

class Hub {
 public:
  // post must outlive it. own: this node, whose boxes are at hand; its summaries are told here like any other's.
  Hub(MessageSender* post, std::string own) : post_(post), own_(std::move(own)) {}

  Table& table() { return table_; }
  const Table& table() const { return table_; }

  void Join(const std::string& node, std::int64_t now_ns);
  // closed: not for its silence, but because its connection was closed: its machine is there, its leader is not.
  void Leave(const std::string& node, bool closed, std::int64_t now_ns);
  // Bodies that cannot be read are counted and change nothing.
  void TakeSummary(const std::string& node, std::string_view body, std::int64_t now_ns);
  void TakeRecords(const std::string& node, std::string_view body);
  std::uint64_t refused() const { return refused_; }
  const std::set<std::string>& others() const { return others_; }  // nodes that speak another version
  // Nodes that tell more than there is room for: not watched from here.
  const std::set<std::string>& crowded() const { return crowded_; }
  // Nodes of an earlier run of this job, whose ranks a later run has begun anew elsewhere. They are told nothing, and
  // their boxes are left out.
  const std::set<std::string>& earlier_runs() const { return earlier_runs_; }

  // ---- what is fetched -------------------------------------------------------------------------------------------

  // Whom to ask before the job is judged: everyone of a small one; else the nodes that `first`, a diagnosis of what is
  // known already, points to, and those whose calls differ. None who has answered since LetGo().
  std::vector<std::string> Whom(const diagnosis::Diagnosis& first) const;
  // A difference somewhere before all calls that are known: the nodes whose whole record of the communicator decides.
  std::vector<std::string> WhomForAll(std::uint64_t communicator) const;
  // From now on this node is not asked for its boxes: it would refuse.
  void SetSilent(const std::string& node, bool silent);
  void Gather(const std::vector<std::string>& nodes, std::uint64_t communicator, std::int64_t now_ns);
  // By how much signs of life come too late; answers are waited for accordingly.
  void SetLate(std::int64_t late_ns) { late_ns_ = late_ns; }
  // All have answered, or have had time enough.
  bool Gathered(std::int64_t now_ns);
  void LetGo();

  // The boxes of the other nodes: as fetched, else as their summaries tell. Left out: those that are overtaken, and
  // those of another node that this one sees itself (`own`, in one run directory). job_minus_here_ns: the job's clock.
  std::vector<reader::BoxImage> Boxes(const std::vector<reader::BoxImage>& own, std::int64_t job_minus_here_ns,
                                      std::int64_t now_ns) const;

  // ---- what is said ----------------------------------------------------------------------------------------------

  // To all, and to those who come later. The revision is counted here, and job_minus_yours_ns filled in for each.
  void Say(VerdictBroadcast word, std::int64_t job_minus_here_ns, std::int64_t now_ns);
  // Again to those who have not got it.
  void Repeat(std::int64_t now_ns);
  const VerdictBroadcast& word() const { return word_; }

 private:
  void Ask(const std::string& node, const Fetch& fetch);
  void ForgetUnknown();
  void FindEarlierRuns();
  bool HasRoomFor(std::string_view piece) const;
  std::size_t RoomForBoxes(const std::string& node) const;
  bool Tell(const std::string& node, std::int64_t now_ns);  // false: no room now, and not for others either

  MessageSender* post_;
  std::string own_;
  Table table_;
  std::map<std::string, Pieces> pieces_;
  std::map<std::string, std::int64_t> asked_anew_ns_;
  struct Reported {
    std::int64_t at_ns = 0;
    int again = 0;  // times that the word was repeated
  };
  std::map<std::string, Reported> reported_;
  // What was asked for is still on its way over a slow network: more would only make it slower.
  std::set<std::string> owing_;
  std::set<std::string> silent_;
  std::map<std::string, std::int64_t> slow_until_ns_;
  std::uint64_t refused_ = 0;
  std::set<std::string> others_, crowded_, earlier_runs_;

  bool gathering_ = false;
  std::int64_t gather_until_ns_ = 0, late_ns_ = 0;
  std::uint64_t fetches_ = 0;
  std::map<std::string, std::uint64_t> waiting_;  // node -> number of the fetch
  struct Fetched {
    std::vector<reader::BoxImage> boxes;
    std::size_t made = 0;
  };
  std::map<std::string, Fetched> fetched_;

  VerdictBroadcast word_;
  std::int64_t job_minus_here_ns_ = 0;
};

}  // namespace ncclwatch::nodes
