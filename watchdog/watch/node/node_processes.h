// The processes of the node that the leader follows: their boxes and pidfds, their deaths, and what those that show no
// sign of life are doing. Writes what it sees as observations. One thread.
#pragma once

#include <poll.h>

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/live/live_compare.h"
#include "core/reader/box.h"
#include "watchdog/evidence/exit.h"
#include "watchdog/watch/base/context.h"
#include "watchdog/watch/base/journal.h"
#include "watchdog/watch/node/boxless_search.h"

namespace ncclwatch::watch {

struct Member {
  std::unique_ptr<reader::MappedBox> box;
  std::int32_t pid = 0;
  std::uint64_t start_time = 0;
  std::int32_t rank = -1;
  bool own = false;
  bool same_boot = false;
  bool near = false;  // same boot and pid namespace: /proc and pidfds speak of it
  int pidfd = -1;
  bool gone = false;
  std::int64_t half_gone_ns = 0;                       // since when only one of process and lock is gone, 0 not
  format::Observed last = format::Observed::kNothing;  // other than running
  std::string memory_group;
};

class NodeProcesses {
 public:
  NodeProcesses(const Context& context, Journal* journal, diagnosis::LiveCompare* compare);
  ~NodeProcesses();
  NodeProcesses(const NodeProcesses&) = delete;
  NodeProcesses& operator=(const NodeProcesses&) = delete;

  // What saw a process while it lived (a follower's, of the leader that died): how it went can then still be read. The
  // pidfd is taken over.
  void Remember(std::int32_t pid, int pidfd, const std::string& memory_group, const evidence::MemoryKills& kills);

  // Opens boxes that have appeared. True if there were any.
  bool Scan(std::int64_t now_ns);
  // To be asked before any look at the boxes: leaves out those whose files have been cut short, where a look would be a
  // SIGBUS in the host. What is cut in the moment between is beyond help.
  void DropCut();
  // Looks after those whose pidfd is readable, and after all where pidfds cannot be had. The number of new deaths.
  int LookForDeaths(std::int64_t now_ns);
  // Records what silent processes are doing. True if anything was recorded.
  bool LookAtSilent(std::int64_t now_ns);
  // Records processes of ranks without a box.
  void LookForBoxlessRanks(std::int64_t now_ns);
  // A fresh comparison (after `ncclwatch on`): every box is followed anew.
  void FollowAnew(diagnosis::LiveCompare* compare);

  void AddPollFds(std::vector<pollfd>* fds) const;
  std::vector<reader::BoxImage> Images(std::uint64_t max_calls = UINT64_MAX) const;
  const std::vector<Member>& members() const { return members_; }
  const std::vector<std::string>& notes() const { return notes_; }
  int deaths() const { return deaths_; }
  bool IsGone(std::int32_t rank) const;
  // A process without a box that was seen here (LookForBoxlessRanks).
  bool IsBoxless(std::uint32_t pid, std::uint64_t start_time) const;
  bool SpeaksMpi() const;  // one of them at least

 private:
  void Add(std::unique_ptr<reader::MappedBox> box, bool own);
  void LearnEarlierDeaths(const reader::MappedBox& box);
  bool LookBehind(Member* member, std::int64_t now_ns);
  bool CheckDeath(Member* member, std::int64_t now_ns);
  void LogMembers() const;
  void NoteForLog(const Member& member, const std::string& what);
  void LogSeen();
  bool Observe(const Member& member, format::Observed what, std::int64_t now_ns, const evidence::ExitWord& exit = {});

  const Context& context_;
  Journal* journal_;
  diagnosis::LiveCompare* compare_;
  evidence::MemoryKills memory_kills_;
  std::vector<Member> members_;
  std::set<std::string> known_;  // names of files opened; the own one must never be
  struct Remembered {
    int pidfd = -1;
    std::string memory_group;
  };
  std::map<std::int32_t, Remembered> remembered_;                     // by pid
  std::set<std::pair<std::uint32_t, std::uint64_t>> earlier_deaths_;  // observed by earlier leaders
  BoxlessSearch boxless_search_;
  std::map<std::uint32_t, std::uint64_t> boxless_;  // pid -> start time
  std::vector<std::string> notes_;
  std::map<std::string, std::string> unreadable_;  // path -> reason
  std::int64_t directory_changed_ns_ = -1;
  std::int64_t scanned_ns_ = 0;
  std::int64_t looked_without_pidfd_ns_ = 0;
  int deaths_ = 0;
  std::vector<std::string> seen_;  // not logged yet; of more than a few only the count
  std::size_t seen_count_ = 0;
};

}  // namespace ncclwatch::watch
