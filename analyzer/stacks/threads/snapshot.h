// Registers and stack of one thread at one moment: of a sleeping one without touching it, of a running one in a stop of
// some microseconds.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/stacks/base/maps.h"
#include "analyzer/stacks/base/memory.h"
#include "analyzer/stacks/base/stack.h"
#include "analyzer/stacks/threads/proc_thread.h"
#include "analyzer/stacks/base/registers.h"

namespace ncclwatch::stacks {

using Moment = std::chrono::steady_clock::time_point;

struct Snapshot {
  Registers registers;
  std::uint64_t stack_begin = 0;
  std::vector<std::byte> stack;
};

// What is copied of a stack at most: what lies further out is read later, and has changed only if the thread got so
// far.
inline constexpr std::size_t kMostStackBytes = 256 << 10;

// From the stack pointer on, as far as its mapping goes.
void CopyStack(const Memory& memory, const Maps& maps, std::uint64_t stack_pointer, Snapshot* snapshot);

struct Sleeping {
  InCall call;
  std::optional<Snapshot> snapshot;  // none if it ran meanwhile, or is running
  bool allowed = true;               // false if the kernel refused
};
// Looks up to three times if it runs now and then.
Sleeping ReadSleeping(const ProcThread& thread, const Memory& memory, const Maps& maps);

struct Stopped {
  int tid = 0;
  std::optional<Snapshot> snapshot;
  std::string trouble;  // why there is none, or what the stop did to the thread
};
// Stops these threads one after the other and lets each go on as soon as its stack is copied. None is left stopped,
// also not if this process is killed meanwhile. Returns at `deadline` at the latest, as far as the kernel lets it.
std::vector<Stopped> ReadStopped(const Memory& memory, const Maps& maps, const std::vector<int>& tids, Moment deadline);

}  // namespace ncclwatch::stacks
