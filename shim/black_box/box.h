// The process's black box, mapped for writing, and what the process alone needs to write it. One per process, made at
// first use, never freed: a fork child makes its own, at another address.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <string>
#include <variant>

#include "ncclwatch/format/black_box.h"
#include "ncclwatch/format/record.h"
#include "shim/black_box/groups.h"
#include "shim/black_box/shapes.h"
#include "shim/black_box/slots.h"

namespace ncclwatch::shim {

// From ncclComm_t to the entry of the communicator table: open addressing, read without a lock.

// Writers are serialised by Box::writer. A slot's index is stored before its handle (release), with which the
// reader's acquire load of the handle pairs.
class HandleTable {
 public:
  static constexpr std::uint32_t kCapacity = 4 * format::kMostCommunicators;
  static_assert(std::has_single_bit(kCapacity));
  struct Slot {
    std::atomic<std::uint64_t> handle;
    std::atomic<std::uint32_t> index;
  };
  // kCapacity zeroes, which stay.
  explicit HandleTable(Slot* slots) : slots_(slots) {}

  std::uint32_t Find(std::uint64_t handle) const {
    for (std::uint32_t i = 0, at = Home(handle); i < kCapacity; ++i, at = (at + 1) % kCapacity) {
      const std::uint64_t there = slots_[at].handle.load(std::memory_order_acquire);
      if (there == handle) [[likely]]
        return handle > kRemoved ? slots_[at].index.load(std::memory_order_relaxed) : format::kNoCommunicator;
      if (there == kEmpty) break;
    }
    return format::kNoCommunicator;
  }

  // A handle that is there already gets the new index. False if the table is full.
  bool Insert(std::uint64_t handle, std::uint32_t index) {
    Slot* room = nullptr;
    for (std::uint32_t i = 0, at = Home(handle); i < kCapacity; ++i, at = (at + 1) % kCapacity) {
      Slot& slot = slots_[at];
      const std::uint64_t there = slot.handle.load(std::memory_order_relaxed);
      if (there == handle) {
        slot.index.store(index, std::memory_order_relaxed);
        return true;
      }
      if (!room && (there == kEmpty || there == kRemoved)) room = &slot;
      if (there == kEmpty) break;
    }
    if (!room) return false;
    room->index.store(index, std::memory_order_relaxed);
    room->handle.store(handle, std::memory_order_release);
    return true;
  }

  void Remove(std::uint64_t handle) {
    for (std::uint32_t i = 0, at = Home(handle); i < kCapacity; ++i, at = (at + 1) % kCapacity) {
      const std::uint64_t there = slots_[at].handle.load(std::memory_order_relaxed);
      if (there == kEmpty) return;
      if (there != handle) continue;
      // Before an empty slot no chain continues, so that slots of short-lived communicators become free again.
      const bool ends = slots_[(at + 1) % kCapacity].handle.load(std::memory_order_relaxed) == kEmpty;
      slots_[at].handle.store(ends ? kEmpty : kRemoved, std::memory_order_release);
      return;
    }
  }

 private:
  static constexpr std::uint64_t kEmpty = 0;
  static constexpr std::uint64_t kRemoved = 1;  // no pointer to a communicator
  static std::uint32_t Home(std::uint64_t handle) {
    return static_cast<std::uint32_t>(handle * 0x9e3779b97f4a7c15ull >> (64 - std::countr_zero(kCapacity)));
  }

  Slot* slots_;
};

inline constexpr std::uint64_t kNoSlot = ~std::uint64_t{0};  // of a call that is not recorded

// Of one communicator, beside its table entry.
struct Private {
  // Atomics: who asks about one pending communicator looks at all of them.
  std::atomic<void**> out{nullptr};  // where the handle will appear; null once it has, the memory is the application's
  std::atomic<std::uint64_t> parent_handle{0};
  std::uint32_t sibling = format::kNoCommunicator;  // the next communicator of one InitAll
  bool pending = false;            // non-blocking: not settled yet; who takes it back (TakePending) settles
  std::uint64_t device_marks = 0;  // CUdeviceptr of Communicator::marks, 0 none
  void* context = nullptr;         // CUcontext that device_marks belongs to
  // Start marks of this entry so far, whoever its owner was; and the streams that have a place among them.
  std::uint64_t starts = 0;
  struct StartPlace {
    std::uint64_t stream = 0;  // and thread, where each has its own; 0: free
    std::uint64_t last = 0;    // number handed out
  } start_places[format::kStarts];
  Shapes shapes;                                 // where kernels are timed
  std::atomic<std::uint32_t> reported_error{0};  // generation + 1 whose asynchronous error has been noted
};

// How often this process has used a unique id for a rank (with NCCL_COMM_ID all ids are equal).
struct SeenId {
  std::uint64_t key;
  std::uint64_t uses;
};
inline constexpr std::uint32_t kSeenIds = 4096;

// One word for all of them: the ordinary call asks once.
enum Detour : std::uint8_t {
  kRefuses = 1,       // the job is being ended: calls are not passed on any more (process/abort.h)
  kMarksStarts = 2,   // NCCLWATCH_GPU=both (recorder/starts.h)
  kTimesKernels = 4,  // NCCL has taken this library as its profiler (profiler/plugin.h)
};

inline constexpr int kNamedGpus = 16;

class PythonLines;

struct Box {
  Box(HandleTable::Slot* for_handles, HandleTable::Slot* for_ended) : handles(for_handles), ended_by_us(for_ended) {}

  format::Header* header = nullptr;
  format::Record* ring = nullptr;
  std::uint64_t mask = 0;
  format::Communicator* communicators = nullptr;
  std::uint32_t capacity = 0;  // entries of it
  format::Peer* peers = nullptr;
  format::Words* words = nullptr;
  format::Part* parts = nullptr;
  format::Note* notes = nullptr;
  std::atomic<std::uint64_t> parts_taken{0};  // entries of it, ever
  char* strings = nullptr;
  std::uint64_t file_bytes = 0;
  int fd = -1;              // holds the lock; closing any descriptor of the file would drop it
  std::uint64_t inode = 0;  // of its file
  int guard = -1;           // number of its mapping (reader/guard.h)
  std::uint32_t pid = 0;
  bool gpu_marks_wanted = true;
  bool start_marks_wanted = false;              // as kMarksStarts in detours, from before the first communicator on
  std::uint32_t times_every = 0;                // NCCLWATCH_PROFILER: one kernel in so many is timed, 0: none
  bool times_beside_others = false;             // also where the user has set another profiler
  std::uint64_t site_mask = ~std::uint64_t{0};  // of native call sites; 0: none are kept
  PythonLines* python_lines = nullptr;          // null: call sites are native (python/lines.h)
  bool makes_sends_synchronous = false;         // NCCLWATCH_MPI_CHECKS
  bool watches_buffers = false;                 // likewise
  const char* secret_names = "";                // NCCLWATCH_REDACT
  std::uint32_t library = ~0u;                  // that the header names as the job's NCCL
  std::atomic<bool> library_settled{false};     // once the first communicator is being made
  std::atomic<bool> registered{false};          // the communicator table, with the CUDA driver

  std::atomic<std::uint32_t> unsettled{0};  // entries with Private::pending
  std::atomic<std::uint32_t> reuse_from{0};
  std::atomic<std::uint32_t> inits_all{0};
  std::atomic<bool> said_full{false};
  std::atomic<std::uint8_t> detours{0};        // Detour: what comes between a call's record and the call
  std::atomic_flag writer = ATOMIC_FLAG_INIT;  // making and ending communicators; never the hot path

  std::atomic<std::uint32_t> gpu_names[kNamedGpus] = {};  // by CUDA's ordinal: offset in strings, 0 not known yet

  Slots slots;
  HandleTable handles;
  HandleTable ended_by_us;  // written under `writer`
  GroupPool groups;
  Private* privates = nullptr;  // one for each entry of the communicator table
  SeenId seen[kSeenIds];

  bool Watching() const { return header->watching.load(std::memory_order_relaxed) != 0; }
  format::Record& RecordAt(std::uint64_t slot) const { return ring[slot & mask]; }
};

// Held for some dozens of instructions. Gives up waiting rather than hang the host on a thread that was killed inside.
class WriterLock {
 public:
  explicit WriterLock(Box& box);
  ~WriterLock();
  WriterLock(const WriterLock&) = delete;
  WriterLock& operator=(const WriterLock&) = delete;
  bool held() const { return held_; }

 private:
  Box& box_;
  bool held_ = false;
};

struct BoxPlan {
  std::string directory;
  std::string name;  // of the file, without its directory
  std::uint32_t ring = format::kDefaultRing;
  std::uint32_t communicators = format::kDefaultCommunicators;
  bool python_sites = false;
  format::Identity identity{};
};
struct BoxFailure {
  std::string reason;
};

std::uint64_t BoxBytes(const BoxPlan& plan);
// Makes the file, locked and whole, and maps it, under a name that no reader looks at.
std::variant<Box*, BoxFailure> MakeBox(const BoxPlan& plan);
// Gives the file the name that readers look for. An empty string, or why not; then the file is gone.
std::string PublishBox(const Box& box, const BoxPlan& plan);
// Takes away the file of a box that was not published. What is mapped stays: threads may be writing to it.
void AbandonBox(const Box& box, const BoxPlan& plan);

// Appends a zero-terminated text to the string region: its offset, 0 if there is no room.
std::uint32_t AddString(Box& box, const char* text);

// Names a library of the process as its NCCL, in place of the one named before.
void NoteLibrary(Box& box, std::uint32_t library);

}  // namespace ncclwatch::shim
