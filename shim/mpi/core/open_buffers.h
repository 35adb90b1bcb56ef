// The memory that operations of this process are using: from the call that begins one to the call that ends it nobody
// may write to what is sent, nor read or write what is received into. Knows a few operations at once, the first ones
// that are begun, and asks nothing of a call while none is open: what a call pays has a bound. Knows nothing of MPI.
#pragma once

#include <atomic>
#include <cstdint>

#include "shim/base/put.h"
#include "shim/mpi/core/threads.h"

namespace ncclwatch::shim::mpi {

enum class Use : std::uint8_t { kRead, kWritten };

struct Piece {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;

  bool empty() const { return begin == end; }
  std::uint64_t bytes() const { return end - begin; }
  bool Overlaps(const Piece& other) const { return begin < other.end && other.begin < end; }
};

struct OpenBuffer {
  Piece piece = {};
  std::uint64_t slot = 0;      // of the record of the operation
  std::uint64_t begun_at = 0;  // return address of the call that began it
  std::uint32_t function = 0;  // that call
  Use use = Use::kRead;
  bool one_sided = false;  // an access to a window: what ends accesses ends it

  // A line of the program that receives again and again into one buffer, as benchmarks do, does not care what it gets.
  bool IsRepeatedBy(const Piece& other, std::uint64_t site) const {
    return use == Use::kWritten && begun_at == site && piece.begin == other.begin && piece.end == other.end;
  }
};

class OpenBuffers {
 public:
  static constexpr std::uint32_t kFew = 16;
  static constexpr std::uint32_t kMany = 4096;

  // All that there is room for, not only a few.
  void KeepMany() { many_ = true; }

  bool none() const { return count_.load(std::memory_order_relaxed) == 0; }
  // All that are open lie between two addresses: most calls use no byte of what is between them.
  bool MayOverlap(const Piece& piece) const {
    return !none() && piece.begin < high_.load(std::memory_order_relaxed) &&
           low_.load(std::memory_order_relaxed) < piece.end;
  }

  // One more than there may be is not known.
  [[gnu::always_inline]] void Add(const OpenBuffer& one) {
    if (one.piece.empty()) return;
    const Lock lock(locked_);
    const std::uint32_t count = count_.load(std::memory_order_relaxed);
    if (!lock.held() || count >= most()) return;
    Copy(one, &buffers_[count]);
    const bool first = count == 0;
    if (first || one.piece.begin < low_.load(std::memory_order_relaxed))
      low_.store(one.piece.begin, std::memory_order_relaxed);
    if (first || one.piece.end > high_.load(std::memory_order_relaxed))
      high_.store(one.piece.end, std::memory_order_relaxed);
    count_.store(count + 1, std::memory_order_relaxed);
  }
  void Remove(std::uint64_t slot) {
    RemoveIf([slot](const OpenBuffer& one) { return one.slot == slot; });
  }
  void RemoveOneSided() {
    RemoveIf([](const OpenBuffer& one) { return one.one_sided; });
  }
  // Whether one that is open forbids this use by a call at `site`. Where as many are open as there may be nobody asks:
  // it would cost each call as much as all of them.
  [[gnu::noinline]] bool Find(const Piece& piece, Use use, std::uint64_t site, OpenBuffer* found = nullptr) {
    if (!MayOverlap(piece) || piece.empty()) return false;
    const Lock lock(locked_);
    const std::uint32_t count = count_.load(std::memory_order_relaxed);
    if (!lock.held() || count >= most()) return false;
    for (std::uint32_t i = 0; i < count; ++i) {
      const OpenBuffer& open = buffers_[i];
      if (!open.piece.Overlaps(piece) || (use == Use::kRead && open.use == Use::kRead)) continue;
      if (use == Use::kWritten && open.IsRepeatedBy(piece, site)) continue;
      if (found) *found = buffers_[i];
      return true;
    }
    return false;
  }

 private:
  std::uint32_t most() const { return many_ ? kMany : kFew; }

  // Word by word: in larger pieces it would wait for the stores that have just put the words there.
  [[gnu::always_inline]] static void Copy(const OpenBuffer& from, OpenBuffer* to) {
    Put(to->piece.begin, from.piece.begin);
    Put(to->piece.end, from.piece.end);
    Put(to->slot, from.slot);
    Put(to->begun_at, from.begun_at);
    to->function = from.function;
    to->use = from.use;
    to->one_sided = from.one_sided;
  }

  template <class Is>
  void RemoveIf(const Is& is) {
    if (none()) return;
    const Lock lock(locked_);
    if (!lock.held()) return;
    std::uint32_t count = count_.load(std::memory_order_relaxed);
    for (std::uint32_t i = 0; i < count;)
      if (!is(buffers_[i]))
        ++i;
      else if (i != --count)
        Copy(buffers_[count], &buffers_[i]);
    count_.store(count, std::memory_order_relaxed);
  }

  std::atomic<std::uint32_t> count_{0};
  std::atomic<std::uintptr_t> low_{0}, high_{0};  // of all that were added since there was none
  bool many_ = false;
  std::atomic<bool> locked_{false};
  OpenBuffer buffers_[kMany];
};

}  // namespace ncclwatch::shim::mpi
