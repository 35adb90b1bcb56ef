// Whether several threads call MPI. While one alone does, what this folder keeps of MPI's objects is not locked: a lock
// waits for all stores before it, and a call would take several.
#pragma once

#include <sched.h>

#include <atomic>

#include "shim/base/thread.h"

namespace ncclwatch::shim::mpi {

struct Call;

// From MPI_Init on under MPI_THREAD_MULTIPLE; else from the first call of a second thread, which the program must not
// make while another one is inside MPI.
inline constinit std::atomic<bool> threaded{false};
inline constinit std::atomic<const Thread*> first_caller{nullptr};
extern std::atomic<int> thread_level;  // MPI_THREAD_...
void LearnThreads();                   // after MPI_Init; before EndWorld, which leaves the level in the world's entry

// The thread that calls first is the one that initializes MPI. Reports another one that may not call.
[[gnu::cold, gnu::noinline]] void NoteOtherCaller(Call& call);
inline void NoteCaller(const Thread& thread, Call& call) {
  if (first_caller.load(std::memory_order_relaxed) != &thread) [[unlikely]]
    NoteOtherCaller(call);
}

// Held for some dozens of instructions. Gives up waiting rather than hang the host on a thread that was killed inside.
class Lock {
 public:
  explicit Lock(std::atomic<bool>& locked) {
    if (!threaded.load(std::memory_order_relaxed)) [[likely]]
      return;
    Wait(locked);
  }
  ~Lock() {
    if (locked_) locked_->store(false, std::memory_order_release);
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  bool held() const { return held_; }

 private:
  static constexpr int kPatience = 1000000;  // yields

  [[gnu::cold, gnu::noinline]] void Wait(std::atomic<bool>& locked) {
    held_ = false;
    for (int i = 0; i < kPatience && !held_; ++i) {
      held_ = !locked.exchange(true, std::memory_order_acquire);
      if (!held_) sched_yield();
    }
    if (held_) locked_ = &locked;
  }

  std::atomic<bool>* locked_ = nullptr;  // to be opened again
  bool held_ = true;
};

}  // namespace ncclwatch::shim::mpi
