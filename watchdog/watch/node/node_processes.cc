#include "watchdog/watch/node/node_processes.h"
#include "core/reader/load.h"
#include "ncclwatch/nanoseconds.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <string_view>

#include "core/model/text.h"
#include "ncclwatch/format/lease.h"
#include "watchdog/evidence/pidfd.h"
#include "watchdog/evidence/process_state.h"
#include "watchdog/log/log.h"
#include "watchdog/rundir/process.h"
#include "watchdog/watch/base/log_text.h"

namespace ncclwatch::watch {
namespace {

using format::Observed;

constexpr std::int64_t kStaleHeartbeat_ns = 400 * kMs;  // ten beats missed: worth a look from outside
constexpr std::int64_t kSilentAfter_ns = 2'000 * kMs;   // runnable, yet no beat: starved, or its watchdog is gone
constexpr std::int64_t kHiddenAfter_ns = 500 * kMs;     // process and lock fall together within microseconds
constexpr std::int64_t kWithoutPidfd_ns = 200 * kMs;    // how often processes without a pidfd are looked at
// Coarse directory times, and boxes seen while being made: a scan this soon after a change is repeated.
constexpr std::int64_t kRescan_ns = 1'000 * kMs;
constexpr std::uint32_t kRoomForDeaths = 256;  // observations kept free of mere states

// Of another process's file only: closing any descriptor of one's own locked file drops the lock.
bool LockIsHeld(const descriptors::Directory& directory, const std::string& path) {
  const int fd = directory.Open(path.substr(path.rfind('/') + 1), O_RDONLY | O_NONBLOCK);
  if (fd < 0) return false;
  struct flock lock = {};
  lock.l_type = F_RDLCK;
  lock.l_whence = SEEK_SET;
  lock.l_len = 1;
  const bool held = fcntl(fd, F_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
  close(fd);
  return held;
}

std::uint32_t PlaceOf(const format::Identity& identity) {
  return format::PidPlace({identity.boot_id, strnlen(identity.boot_id, sizeof(identity.boot_id))},
                          identity.pid_namespace);
}

bool SameBoot(const format::Identity& a, const format::Identity& b) {
  return std::strncmp(a.boot_id, b.boot_id, sizeof(a.boot_id)) == 0;
}

}  // namespace

NodeProcesses::NodeProcesses(const Context& context, Journal* journal, diagnosis::LiveCompare* compare)
    : context_(context), journal_(journal), compare_(compare) {
  if (std::unique_ptr<reader::MappedBox> own = reader::MappedBox::Borrow(context.own, context.own_path))
    Add(std::move(own), true);
  known_.insert(context.own_path.substr(context.own_path.rfind('/') + 1));
}

NodeProcesses::~NodeProcesses() {
  for (const Member& member : members_) {
    compare_->Forget(*member.box);
    if (member.pidfd >= 0) close(member.pidfd);
  }
  for (const auto& [pid, one] : remembered_) close(one.pidfd);
}

void NodeProcesses::Remember(std::int32_t pid, int pidfd, const std::string& memory_group,
                             const evidence::MemoryKills& kills) {
  memory_kills_.Learn(kills);
  const auto [at, inserted] = remembered_.try_emplace(pid, Remembered{pidfd, memory_group});
  if (!inserted) close(pidfd);
}

bool NodeProcesses::Scan(std::int64_t now_ns) {
  struct stat info = {};
  if (!context_.directory.Stat(".", &info)) return false;
  const std::int64_t changed = info.st_mtim.tv_sec * 1'000'000'000LL + info.st_mtim.tv_nsec;
  if (changed == directory_changed_ns_ && now_ns - scanned_ns_ > kRescan_ns && unreadable_.empty()) return false;
  if (changed != directory_changed_ns_) scanned_ns_ = now_ns;
  directory_changed_ns_ = changed;
  DIR* directory = context_.directory.List();
  if (!directory) return false;
  bool any = false;
  while (const dirent* entry = readdir(directory)) {
    if (!std::string_view(entry->d_name).ends_with(format::kBoxSuffix)) continue;
    if (known_.count(entry->d_name)) continue;
    const std::string path = context_.directory.PathOf(entry->d_name);
    auto opened = reader::MappedBox::Open(context_.directory, entry->d_name);
    if (const auto* failure = std::get_if<reader::Failure>(&opened)) {
      unreadable_[path] = failure->reason;
      continue;
    }
    unreadable_.erase(path);
    known_.insert(entry->d_name);
    Add(std::move(std::get<0>(opened)), false);
    any = true;
  }
  closedir(directory);
  if (any) LogMembers();
  notes_.clear();
  for (const auto& [path, reason] : unreadable_) notes_.push_back(path + ": " + reason);
  return any;
}

void NodeProcesses::LogMembers() const {
  std::vector<int> ranks;
  for (const Member& member : members_) ranks.push_back(member.rank);
  std::sort(ranks.begin(), ranks.end());
  log::Debug("follows {} processes: {}", ranks.size(), diagnosis::Ranks(ranks));
}

void NodeProcesses::Add(std::unique_ptr<reader::MappedBox> box, bool own) {
  const format::Identity& identity = box->header().identity;
  const format::Identity& mine = context_.own->identity;
  Member member;
  member.pid = static_cast<std::int32_t>(identity.pid);
  member.start_time = identity.start_time;
  member.rank = identity.rank;
  member.own = own;
  member.same_boot = SameBoot(identity, mine);
  member.near = member.same_boot && identity.pid_namespace == mine.pid_namespace;
  LearnEarlierDeaths(*box);
  if (member.near && !own) {
    const auto remembered = remembered_.find(member.pid);
    if (remembered != remembered_.end()) {
      member.pidfd = remembered->second.pidfd;
      member.memory_group = remembered->second.memory_group;
      remembered_.erase(remembered);
    } else {
      // The pid may be another process's by now; asked after the pidfd was made, its start time settles that.
      member.pidfd = evidence::OpenPidfd(member.pid);
      const std::optional<rundir::ProcessStat> stat = rundir::StatOf(member.pid);
      if (member.pidfd >= 0 && (!stat || stat->start_time != member.start_time)) {
        close(member.pidfd);
        member.pidfd = -1;
      }
    }
    // Of one that is gone by now it could not be found any more.
    if (member.memory_group.empty()) member.memory_group = memory_kills_.Follow(member.pid);
  }
  const auto boxless = boxless_.find(identity.pid);
  member.box = std::move(box);
  if (boxless != boxless_.end()) {
    Observe(member, Observed::kRunning, context_.own->heartbeat_ns.load(std::memory_order_relaxed));
    boxless_.erase(boxless);
  }
  compare_->Follow(*member.box);
  members_.push_back(std::move(member));
}

void NodeProcesses::LearnEarlierDeaths(const reader::MappedBox& box) {
  for (const reader::Observation& observation : box.Image(0).observations)
    if (observation.what == Observed::kGone) earlier_deaths_.insert({observation.pid, observation.start_time});
}

void NodeProcesses::DropCut() {
  for (auto member = members_.begin(); member != members_.end();) {
    if (member->own || member->box->StillWhole()) {
      ++member;
      continue;
    }
    compare_->Forget(*member->box);
    if (member->pidfd >= 0) close(member->pidfd);
    const std::string& path = member->box->path();
    known_.erase(path.substr(path.rfind('/') + 1));  // opened again, it is named with the reason
    unreadable_[path] = "cut short";
    member = members_.erase(member);
  }
}

int NodeProcesses::LookForDeaths(std::int64_t now_ns) {
  std::vector<pollfd> fds;
  std::vector<Member*> with_pidfd, without;
  const bool look_without = now_ns - looked_without_pidfd_ns_ >= kWithoutPidfd_ns;
  if (look_without) looked_without_pidfd_ns_ = now_ns;
  for (Member& member : members_) {
    if (member.own || member.gone || !member.same_boot) continue;
    if (member.pidfd >= 0) {
      fds.push_back({member.pidfd, POLLIN, 0});
      with_pidfd.push_back(&member);
    } else if (look_without) {
      without.push_back(&member);
    }
  }
  int deaths = 0;
  if (!fds.empty() && poll(fds.data(), fds.size(), 0) > 0)
    for (std::size_t i = 0; i < fds.size(); ++i)
      if (fds[i].revents) deaths += LookBehind(with_pidfd[i], now_ns);
  for (Member* member : without) deaths += CheckDeath(member, now_ns);
  deaths_ += deaths;
  LogSeen();
  return deaths;
}

// A pidfd is readable once its process is gone, and not before. Otherwise the host has closed it, and its number is
// nobody's or a file of the host's: neither polled again, which would never rest, nor closed.
bool NodeProcesses::LookBehind(Member* member, std::int64_t now_ns) {
  const bool died = CheckDeath(member, now_ns);
  if (!died && member->half_gone_ns == 0) member->pidfd = -1;
  return died;
}

bool NodeProcesses::CheckDeath(Member* member, std::int64_t now_ns) {
  const bool process_gone = member->near && evidence::StateOf(member->pid, member->start_time) == Observed::kGone;
  const bool lock_free = !LockIsHeld(context_.directory, member->box->path());
  if (process_gone && lock_free) {
    member->gone = true;
    if (earlier_deaths_.count({static_cast<std::uint32_t>(member->pid), member->start_time})) return true;
    evidence::ExitWord exit = evidence::ExitOf(member->pid, member->start_time, member->pidfd);
    if (exit.signal == 9 && memory_kills_.TakeKill(member->memory_group)) exit.flags |= format::kExitOutOfMemory;
    Observe(*member, Observed::kGone, now_ns, exit);
    NoteForLog(*member, "is gone: " + EndText(exit));
    return true;
  }
  if (!process_gone && !lock_free) {
    member->half_gone_ns = 0;
    return false;
  }
  if (member->half_gone_ns == 0) member->half_gone_ns = now_ns;
  if (now_ns - member->half_gone_ns >= kHiddenAfter_ns && member->last != Observed::kHidden) {
    member->last = Observed::kHidden;
    Observe(*member, Observed::kHidden, now_ns);
    NoteForLog(*member, StateText(Observed::kHidden));
  }
  return false;
}

bool NodeProcesses::LookAtSilent(std::int64_t now_ns) {
  memory_kills_.Refresh(now_ns);
  bool any = false;
  const bool room = context_.own->observations_used.load(std::memory_order_relaxed) + kRoomForDeaths <
                    context_.own->observations.count;
  for (Member& member : members_) {
    if (member.own || member.gone || !member.near) continue;
    const std::int64_t age = now_ns - member.box->header().heartbeat_ns.load(std::memory_order_acquire);
    if (age < kStaleHeartbeat_ns && member.last == Observed::kNothing) continue;
    Observed state = Observed::kRunning;
    if (age >= kStaleHeartbeat_ns) state = evidence::StateOf(member.pid, member.start_time);
    if (state == Observed::kGone) continue;  // its pidfd says so too
    if (state == Observed::kRunning && age >= kSilentAfter_ns) state = Observed::kSilent;
    const Observed now_is = state == Observed::kRunning ? Observed::kNothing : state;
    if (now_is == member.last || !room) continue;
    member.last = now_is;
    any |= Observe(member, state, now_ns);
    NoteForLog(member, StateText(state));
  }
  LogSeen();
  return any;
}

// Where many processes end at once, the verdict does not wait for as many lines.
void NodeProcesses::NoteForLog(const Member& member, const std::string& what) {
  constexpr std::size_t kMostNamed = 4;
  if (seen_.size() < kMostNamed) seen_.push_back(fmt::format("rank {} (pid {}) {}", member.rank, member.pid, what));
  ++seen_count_;
}

void NodeProcesses::LogSeen() {
  if (seen_count_ == 0) return;
  const std::size_t more = seen_count_ - seen_.size();
  log::Info("{}{}", fmt::join(seen_, "; "), more != 0 ? fmt::format("; and {} others", more) : "");
  seen_.clear();
  seen_count_ = 0;
}

void NodeProcesses::LookForBoxlessRanks(std::int64_t now_ns) {
  std::vector<std::int32_t> seen;
  for (const Member& member : members_) seen.push_back(member.rank);
  for (const evidence::BoxlessRank& boxless : boxless_search_.Look(context_.own->identity, seen)) {
    if (!boxless_.try_emplace(static_cast<std::uint32_t>(boxless.pid), boxless.start_time).second) continue;
    reader::Observation observation;
    observation.at_ns = now_ns;
    observation.pid = static_cast<std::uint32_t>(boxless.pid);
    observation.start_time = boxless.start_time;
    observation.rank = boxless.rank;
    observation.place = PlaceOf(context_.own->identity);
    observation.what = Observed::kBoxless;
    journal_->Observe(observation);
    log::Debug("rank {} (pid {}) has no black box yet", boxless.rank, boxless.pid);
  }
}

bool NodeProcesses::Observe(const Member& member, Observed what, std::int64_t now_ns, const evidence::ExitWord& exit) {
  reader::Observation observation;
  observation.at_ns = now_ns;
  observation.pid = static_cast<std::uint32_t>(member.pid);
  observation.start_time = member.start_time;
  observation.place = PlaceOf(member.box->header().identity);
  observation.rank = member.rank;
  observation.what = what;
  observation.exit_flags = exit.flags;
  observation.exit_signal = exit.signal;
  observation.exit_status = exit.status;
  return journal_->Observe(observation);
}

void NodeProcesses::FollowAnew(diagnosis::LiveCompare* compare) {
  compare_ = compare;
  for (const Member& member : members_) compare_->Follow(*member.box);
}

void NodeProcesses::AddPollFds(std::vector<pollfd>* fds) const {
  for (const Member& member : members_)
    if (member.pidfd >= 0 && !member.gone && member.half_gone_ns == 0) fds->push_back({member.pidfd, POLLIN, 0});
}

std::vector<reader::BoxImage> NodeProcesses::Images(std::uint64_t max_calls) const {
  std::vector<reader::BoxImage> images;
  for (const Member& member : members_) images.push_back(member.box->Image(max_calls));
  return images;
}

bool NodeProcesses::IsGone(std::int32_t rank) const {
  return std::any_of(members_.begin(), members_.end(),
                     [rank](const Member& member) { return member.gone && member.rank == rank; });
}

bool NodeProcesses::IsBoxless(std::uint32_t pid, std::uint64_t start_time) const {
  const auto found = boxless_.find(pid);
  return found != boxless_.end() && found->second == start_time;
}

bool NodeProcesses::SpeaksMpi() const {
  // MPI_COMM_WORLD is among the first communicators of a process, made in MPI_Init.
  constexpr std::uint32_t kFirst = 8;
  for (const Member& member : members_)
    for (std::uint32_t i = 0; i < std::min(member.box->communicators(), kFirst); ++i)
      if ((reader::Load(member.box->communicator(i).flags) & format::kCommMpi) != 0) return true;
  return false;
}

}  // namespace ncclwatch::watch
