// What a process's file descriptors are, and who is at their other ends.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/stacks/process/sockets.h"
#include "analyzer/stacks/threads/proc_folder.h"
#include "analyzer/stacks/threads/snapshot.h"

namespace ncclwatch::stacks {

// Which processes have which pipes and sockets open, as far as we may look.
class Holders {
 public:
  struct Holder {
    int pid = 0;
    int descriptor = 0;
  };
  explicit Holders(Moment deadline) : deadline_(deadline) {}
  // `link` as /proc/PID/fd has it: "pipe:[1234]", "socket:[1234]". Of all processes of this machine: the first question
  // walks through all of /proc.
  std::vector<Holder> Of(const std::string& link);
  // Only of these processes.
  std::vector<Holder> Among(const std::vector<int>& pids, const std::string& link);
  // Every process could be looked at: who is not found is not there.
  bool complete() const { return complete_; }

 private:
  using Open = absl::flat_hash_map<std::string, std::vector<Holder>>;
  void Look(int pid, Open* open);
  Moment deadline_;
  bool walked_ = false, complete_ = true;
  Open all_;
  absl::flat_hash_map<int, Open> each_;
};

enum class Direction { kReads, kWrites };
enum class Search { kNear, kEverywhere };  // the process and what it has started; all processes

class Descriptors {
 public:
  Descriptors(int pid, Holders* holders);

  // "pipe", "socket", "TCP socket to 10.0.0.2:29500", "/dev/nvidia0", "eventfd"; "closed" if there is no such one.
  std::string Text(int descriptor) const;
  // Who could end a wait for this descriptor, as a sentence; empty if that cannot be told of its kind, or nobody near
  // was found and only they were to be looked at. `own`: the only one is the process itself.
  std::string OtherEnd(int descriptor, Direction direction, Search search, bool* own) const;
  // Of an epoll descriptor: what it watches.
  std::vector<int> Watched(int epoll) const;

 private:
  std::optional<std::string> Link(int descriptor) const;
  using Wanted = bool (*)(const Holders::Holder& holder);
  std::string OfPipe(int descriptor, const std::string& link, Direction direction, Search search, bool* own) const;
  std::string OfSocket(int descriptor, const std::string& link, Search search, bool* own) const;
  // Of those that have it open: none but the process itself only if nobody else was found anywhere.
  std::vector<int> PidsOf(const std::string& link, Search search, Wanted wanted) const;
  std::string Named(const std::vector<int>& pids) const;
  std::string Ended() const;

  int pid_;
  ProcFolder folder_;
  std::vector<int> children_, near_;
  mutable TcpTable tcp_;
  Holders* holders_;
};

std::vector<int> ChildrenOf(int pid);

}  // namespace ncclwatch::stacks
