// What an open ncclGroupStart/End of one thread has collected: its calls return, and run, at the outermost GroupEnd.
#pragma once

#include <atomic>
#include <cstdint>

#include "ncclwatch/format/record.h"

namespace ncclwatch::shim {

// Of a kernel, by NCCL's profiler interface (profiler/plugin.h).
enum class Timing : std::uint32_t {
  kNone,
  kWanted,
  kFollowed,  // an event has been taken for it
};

// One collective or point-to-point call of the group.
struct Operation {
  std::uint64_t slot;
  std::uint64_t stream;
  std::uint64_t chain_before;
  std::uint64_t position;
  std::uint32_t index;  // of the communicator
  std::uint32_t generation;
  std::int32_t peer;  // of Send/Recv
  std::uint32_t flags;
  std::uint32_t function;
  Timing timing;
};
static_assert(sizeof(Operation) == 56);

// An all-to-all over 16,384 ranks is a group of twice as many. Memory is touched as it is used.
inline constexpr std::uint32_t kOperations = 65536;
// Communicators made, finalized, destroyed, aborted in one group.
inline constexpr std::uint32_t kDeferred = 4096;

struct Group {
  std::uint32_t operations;
  std::uint32_t creations;
  std::uint32_t deferred;
  bool failed;                              // a call of the group was refused: NCCL runs none of them
  std::uint32_t created[kDeferred];         // table entries waiting for their handles
  std::uint64_t deferred_slots[kDeferred];  // records of other calls that return with the group
  Operation operation[kOperations];
};

// A fixed number of groups can be open at once, one a thread. A thread that dies inside a group keeps its own.
class GroupPool {
 public:
  // Null if all are taken, or there is no memory: the calls of the group then count as returned one by one.
  Group* Claim();
  void Release(Group* group);

 private:
  static constexpr int kGroups = 64;
  std::atomic<std::uint64_t> taken_{0};
  std::atomic<Group*> groups_[kGroups] = {};
};

}  // namespace ncclwatch::shim
