// Random but always correct NCCL programs: the same seed gives every rank the same plan, and each rank carries out its
// own part. All ranks take the steps of a lane in the same order and steps of different lanes share no communicator, so
// that no rank ever waits for a step that another has not reached.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace random_program {

enum class Op {
  kAllReduce,
  kBroadcast,
  kBcast,
  kReduce,
  kReduceScatter,
  kAllGather,
  kAlltoAll,
  kGather,
  kScatter,
  kCount
};

inline constexpr std::size_t kBytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};  // by ncclDataType_t

struct Call {
  Op op{};
  int communicator = 0;
  std::size_t count = 0;
  int dtype = 0;
  int reduction = 0;  // 0..4 as ncclRedOp_t; kUserMade: made for this call
  int root = 0;
  int stream = 0;  // -1: the default stream
  bool in_place = false;
};
inline constexpr int kUserMade = 5;

struct Transfer {
  int from = 0;  // ranks in the communicator
  int to = 0;
  std::size_t count = 0;
  int dtype = 0;
  int receive_dtype = 0;  // moves the same number of bytes
  std::size_t receive_count = 0;
};

struct Step {
  enum class Kind { kCalls, kTransfers, kSplit, kCreate, kShrink, kDestroy, kFork, kWait, kAsk, kRegister };
  Kind kind{};
  bool grouped = false;  // kCalls of one call may go without a group; several are always one group
  bool nested = false;   // the group has another around it
  std::vector<Call> calls;
  int communicator = 0;  // kTransfers, kSplit, kShrink, kDestroy, kAsk, kRegister; parent of the new ones
  int stream = 0;        // kTransfers
  std::vector<Transfer> transfers;
  std::vector<int> colors;  // kSplit, by rank of the communicator; -1: takes part, gets none
  std::vector<int> keys;
  std::vector<int> made;      // kSplit by colour, kCreate and kShrink one: communicators of the lane
  std::vector<int> excluded;  // kShrink
  int fork_how = 0;           // kFork: 0 _exit, 1 exec, 2 vfork and exec, 3 exit
};

struct CommunicatorPlan {
  std::vector<int> members;  // ranks of the job, by rank in the communicator
};

struct Lane {
  std::vector<CommunicatorPlan> communicators;  // [0] has all ranks
  std::vector<Step> steps;
  int streams = 1;
  bool non_blocking = false;
  bool nccl_memory = false;  // buffers by ncclMemAlloc
};

struct Plan {
  int processes = 0;
  int ranks_per_process = 1;
  std::vector<Lane> lanes;
  int ranks() const { return processes * ranks_per_process; }
};

Plan Make(std::uint64_t seed);

}  // namespace random_program
