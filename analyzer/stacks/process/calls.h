// The system call that a thread is in, with what matters of its arguments, and who could end its wait.
#pragma once

#include <string>
#include <vector>

#include "analyzer/stacks/base/memory.h"
#include "analyzer/stacks/base/stack.h"
#include "analyzer/stacks/process/descriptors.h"
#include "analyzer/stacks/threads/proc_thread.h"

namespace ncclwatch::stacks {

class Calls {
 public:
  // All must outlive this.
  Calls(Memory* memory, const Descriptors* descriptors) : memory_(memory), descriptors_(descriptors) {}

  // "read(7: pipe)", "poll(3: pipe, 5: socket; no time limit)", "clock_nanosleep(3600 s)"; empty for no call.
  std::string Text(const InCall& call) const;
  // A sentence, empty if nothing is known: of pipes and sockets, and of a mutex within the process. `threads` are all
  // of the process. `search`: how far others are looked for.
  std::string WaitsOn(const InCall& call, const Thread& thread, const std::vector<Thread>& threads,
                      Search search) const;
  // A wait that was interrupted goes on as another system call: what it was, by the function that made it.
  static InCall Original(InCall call, const Thread& thread);

 private:
  struct Waited {
    int descriptor = -1;
    Direction direction = Direction::kReads;
  };
  std::vector<Waited> WaitedFor(const InCall& call, const std::string& name) const;
  std::vector<Waited> OfPoll(std::uint64_t address, std::uint64_t count) const;
  std::vector<Waited> OfSelect(const InCall& call) const;
  std::string ManyText(const std::vector<Waited>& waited) const;
  std::string LimitText(std::uint64_t timespec_address, const char* none) const;
  std::string MutexText(const InCall& call, const Thread& thread, const std::vector<Thread>& threads) const;

  Memory* memory_;
  const Descriptors* descriptors_;
};

}  // namespace ncclwatch::stacks
