// Who may write which slot of the ring: each call takes the next one. A locked addition waits for all stores before it,
// and after a message MPI's are among them, into memory that the other rank is reading: while one thread alone records,
// slots are taken without. Who comes second makes sure that the first has seen it before either goes on.
#pragma once

#include <atomic>
#include <cstdint>

namespace ncclwatch::shim {

struct Thread;

class Slots {
 public:
  Slots();

  // For a record of `thread`, which is the caller. Nobody else adds to `head`.
  [[gnu::always_inline]] std::uint64_t Take(std::atomic<std::uint64_t>& head, const Thread& thread) {
    if (alone_.load(std::memory_order_relaxed) == &thread) [[likely]] {
      taking_.store(true, std::memory_order_relaxed);
      // The processor may turn these two around: who ends the time alone has all processors wait (membarrier).
      std::atomic_signal_fence(std::memory_order_seq_cst);
      const bool alone = alone_.load(std::memory_order_relaxed) == &thread;
      const std::uint64_t slot = head.load(std::memory_order_relaxed);
      if (alone) head.store(slot + 1, std::memory_order_relaxed);
      taking_.store(false, std::memory_order_release);
      if (alone) [[likely]]
        return slot;
    }
    return TakeAmongSeveral(head, thread);
  }

 private:
  [[gnu::noinline]] std::uint64_t TakeAmongSeveral(std::atomic<std::uint64_t>& head, const Thread& thread);
  void EndAlone();

  std::atomic<const Thread*> alone_{nullptr};  // null: nobody has taken any; kSeveral: there are others
  std::atomic<bool> taking_{false};            // who is alone is between the two lines above
  std::atomic<bool> ended_{false};             // nobody is alone any more, and has seen it
};

}  // namespace ncclwatch::shim
