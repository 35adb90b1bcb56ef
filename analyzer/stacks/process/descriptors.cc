#include "analyzer/stacks/process/descriptors.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_join.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <sstream>

#include "analyzer/stacks/process/sockets.h"
#include "analyzer/stacks/process/words.h"

namespace ncclwatch::stacks {
namespace {

constexpr std::size_t kMostNamed = 4;   // processes in one sentence
constexpr std::size_t kMostNear = 256;  // processes that one has started, and they in turn

std::uint64_t InodeOf(const std::string& link) {  // "socket:[1234]"
  std::uint64_t inode = 0;
  const std::size_t open = link.find('[');
  if (open != std::string::npos) std::from_chars(link.data() + open + 1, link.data() + link.size(), inode);
  return inode;
}

bool Has(const Holders::Holder& holder, mode_t permission) {
  struct stat status {};
  const std::string path = fmt::format("/proc/{}/fd/{}", holder.pid, holder.descriptor);
  return lstat(path.c_str(), &status) == 0 && (status.st_mode & permission) != 0;
}
bool MayWrite(const Holders::Holder& holder) { return Has(holder, S_IWUSR); }
bool MayRead(const Holders::Holder& holder) { return Has(holder, S_IRUSR); }
bool Anyone(const Holders::Holder&) { return true; }

bool IsShared(const std::string& link) { return link.starts_with("pipe:[") || link.starts_with("socket:["); }

}  // namespace

std::vector<int> ChildrenOf(int pid) {
  std::vector<int> children;
  const ProcFolder tasks(fmt::format("/proc/{}/task", pid));
  for (const std::string& tid : tasks.Names()) {
    std::istringstream words(tasks.Read((tid + "/children").c_str()).value_or(""));
    for (int child = 0; words >> child;) children.push_back(child);
  }
  std::sort(children.begin(), children.end());
  return children;
}

void Holders::Look(int pid, Open* open) {
  const ProcFolder descriptors(fmt::format("/proc/{}/fd", pid));
  const std::vector<std::string> numbers = descriptors.Names();
  if (numbers.empty() && descriptors.error() == EACCES) complete_ = false;
  for (const std::string& number : numbers) {
    const auto link = descriptors.Link(number.c_str());
    int descriptor = -1;
    if (link && absl::SimpleAtoi(number, &descriptor) && IsShared(*link)) (*open)[*link].push_back({pid, descriptor});
  }
}

std::vector<Holders::Holder> Holders::Of(const std::string& link) {
  if (!walked_) {
    walked_ = true;
    for (const std::string& name : ProcFolder("/proc").Names()) {
      if (std::chrono::steady_clock::now() > deadline_) complete_ = false;
      if (int pid = 0; complete_ && absl::SimpleAtoi(name, &pid)) Look(pid, &all_);
    }
  }
  const auto found = all_.find(link);
  return found == all_.end() ? std::vector<Holder>{} : found->second;
}

std::vector<Holders::Holder> Holders::Among(const std::vector<int>& pids, const std::string& link) {
  std::vector<Holder> holders;
  for (const int pid : pids) {
    const auto [entry, fresh] = each_.try_emplace(pid);
    if (fresh) Look(pid, &entry->second);
    const auto found = entry->second.find(link);
    if (found != entry->second.end()) holders.insert(holders.end(), found->second.begin(), found->second.end());
  }
  return holders;
}

Descriptors::Descriptors(int pid, Holders* holders)
    : pid_(pid),
      folder_(fmt::format("/proc/{}", pid)),
      children_(ChildrenOf(pid)),
      near_{pid},
      tcp_(pid),
      holders_(holders) {
  for (std::size_t i = 0; i < near_.size() && near_.size() < kMostNear; ++i) {
    const std::vector<int> more = i == 0 ? children_ : ChildrenOf(near_[i]);
    near_.insert(near_.end(), more.begin(), more.end());
  }
}

std::optional<std::string> Descriptors::Link(int descriptor) const {
  return folder_.Link(fmt::format("fd/{}", descriptor).c_str());
}

std::string Descriptors::Text(int descriptor) const {
  const auto link = Link(descriptor);
  if (!link) return folder_.error() == ENOENT ? "closed" : "";
  if (link->starts_with("pipe:")) return "pipe";
  if (link->starts_with("anon_inode:")) {  // "anon_inode:[eventpoll]", "anon_inode:inotify"
    std::string kind = link->substr(std::string("anon_inode:").size());
    std::erase_if(kind, [](char c) { return c == '[' || c == ']'; });
    return kind == "eventpoll" ? "epoll" : kind;
  }
  if (!link->starts_with("socket:")) return *link;
  if (UnixPeer(pid_, InodeOf(*link))) return "Unix socket";
  const auto tcp = tcp_.Find(InodeOf(*link));
  if (!tcp) return "socket";
  return tcp->state == "listening" ? "TCP socket on " + tcp->local : "TCP socket to " + tcp->remote;
}

std::vector<int> Descriptors::Watched(int epoll) const {
  std::vector<int> watched;
  std::istringstream lines(folder_.Read(fmt::format("fdinfo/{}", epoll).c_str()).value_or(""));
  for (std::string line; std::getline(lines, line);) {  // "tfd:        5 events:       19 data: ..."
    std::istringstream words(line);
    std::string label;
    int descriptor = -1;
    if (words >> label >> descriptor && label == "tfd:") watched.push_back(descriptor);
  }
  return watched;
}

std::string Descriptors::OtherEnd(int descriptor, Direction direction, Search search, bool* own) const {
  *own = false;
  const auto link = Link(descriptor);
  if (!link) return "";
  if (link->starts_with("pipe:")) return OfPipe(descriptor, *link, direction, search, own);
  if (link->starts_with("socket:")) return OfSocket(descriptor, *link, search, own);
  return "";
}

std::vector<int> Descriptors::PidsOf(const std::string& link, Search search, Wanted wanted) const {
  const auto choose = [&](const std::vector<Holders::Holder>& holders) {
    std::vector<int> pids;
    for (const Holders::Holder& holder : holders)
      if (wanted(holder)) pids.push_back(holder.pid);
    std::sort(pids.begin(), pids.end());
    pids.erase(std::unique(pids.begin(), pids.end()), pids.end());
    return pids;
  };
  std::vector<int> pids = choose(holders_->Among(near_, link));
  const bool others = !pids.empty() && pids != std::vector<int>{pid_};
  return others || search == Search::kNear ? pids : choose(holders_->Of(link));
}

std::string Descriptors::OfPipe(int descriptor, const std::string& link, Direction direction, Search search,
                                bool* own) const {
  const bool writer = direction == Direction::kReads;  // who reads waits for a writer
  const std::vector<int> pids = PidsOf(link, search, writer ? MayWrite : MayRead);
  const std::string end = writer ? "writer" : "reader";
  const std::string what = fmt::format("pipe {}", descriptor);
  *own = pids == std::vector<int>{pid_};
  if (*own) return fmt::format("nobody but this process itself has the {}'s end of {}{}", end, what, Ended());
  if (!pids.empty()) return "the " + end + " of " + what + " is " + Named(pids);
  if (search == Search::kNear) return "";
  return fmt::format("{} has the {}'s end of {}{}",
                     holders_->complete() ? "no process" : "no process that we may look at", end, what, Ended());
}

std::string Descriptors::OfSocket(int descriptor, const std::string& link, Search search, bool* own) const {
  const std::uint64_t inode = InodeOf(link);
  const std::string what = fmt::format("socket {}", descriptor);
  const auto unix_peer = UnixPeer(pid_, inode);
  const auto tcp = unix_peer ? std::nullopt : tcp_.Find(inode);
  const std::uint64_t peer = tcp ? tcp->peer_inode : unix_peer.value_or(0);
  std::vector<int> pids;
  if (peer != 0) pids = PidsOf(fmt::format("socket:[{}]", peer), search, Anyone);
  *own = pids == std::vector<int>{pid_};
  if (*own) return "nobody but this process itself has the other end of " + what + Ended();
  if (!pids.empty()) return "the other end of " + what + " is with " + Named(pids);
  if (peer != 0 && search == Search::kEverywhere && holders_->complete())
    return "no process has the other end of " + what + Ended();
  if (!tcp || tcp->state == "listening") return "";
  return fmt::format("{} leads to {} ({})", what, tcp->remote, tcp->state);
}

// Children first: they are what the process itself has made to be served by.
std::string Descriptors::Named(const std::vector<int>& pids) const {
  std::vector<int> others = pids;
  std::erase(others, pid_);
  const auto is_child = [this](int pid) { return std::binary_search(children_.begin(), children_.end(), pid); };
  std::stable_partition(others.begin(), others.end(), is_child);
  std::vector<std::string> texts;
  for (const int pid : others)
    if (texts.size() < kMostNamed) texts.push_back((is_child(pid) ? "child " : "") + PidText(pid));
  return ListText(texts, others.size());
}

// Children that were to write, perhaps.
std::string Descriptors::Ended() const {
  std::vector<std::string> texts;
  for (const int child : children_) {
    const auto stat = ProcThread(child, child).ReadStat();
    if (stat && stat->state == 'Z') texts.push_back(PidText(child));
  }
  return texts.empty() ? "" : "; child " + absl::StrJoin(texts, ", ");
}

}  // namespace ncclwatch::stacks
