// One thread as /proc tells of it, without touching it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "analyzer/stacks/threads/proc_folder.h"

namespace ncclwatch::stacks {

// Of /proc/PID/task/TID/syscall.
struct InCall {
  bool running = false;  // it has a processor, or wants one: the rest is not known
  long number = -1;      // of the system call; -1: it sleeps in none (a page fault, a stop)
  std::array<std::uint64_t, 6> arguments{};
  std::uint64_t stack_pointer = 0, pc = 0;

  bool operator==(const InCall&) const = default;
};
std::optional<InCall> ParseInCall(const std::string& text);

class ProcThread {
 public:
  ProcThread(int pid, int tid);

  bool there() const { return folder_.ok(); }
  int tid() const { return tid_; }
  struct Stat {
    std::string name;
    char state = '?';
  };
  std::optional<Stat> ReadStat() const;
  // None if it is gone or the kernel does not let us; error() says which.
  std::optional<InCall> ReadInCall() const;
  // Changes whenever the thread has run; empty if the kernel does not tell.
  std::string Turns() const;
  std::string WaitChannel() const;  // empty if it does not tell
  // Innermost first, of a thread that is in the kernel; only root may read them.
  std::string KernelFunctions() const;  // "a < b < c"; empty if not known
  int error() const { return folder_.error(); }

 private:
  int tid_;
  ProcFolder folder_;
};

}  // namespace ncclwatch::stacks
