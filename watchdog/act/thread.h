// A short-lived thread of ours in the host: all signals blocked but what guard.h needs, detached, its own small stack.
#pragma once

#include <cstdint>
#include <functional>

namespace ncclwatch::act {

// False if no thread could be made. What `body` throws is dropped.
bool StartThread(const char* name, std::function<void()> body);

// Those of this process that run now. `word` changes with each that begins or ends: who counts something else beside
// them asks before and after.
struct OwnThreads {
  unsigned running = 0;
  std::uint64_t word = 0;
};
OwnThreads CountOwnThreads();

}  // namespace ncclwatch::act
