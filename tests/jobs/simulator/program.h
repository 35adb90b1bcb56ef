// What the ranks of a job do: each is a sequence of operations, made section by section (0 begins the job, 1 to `steps`
// are its training steps, the last one ends it), and the communicators that they speak of.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "simulation/workload.h"

namespace ncclwatch::jobs {

using namespace simulation;

inline constexpr std::uint8_t kInt8 = 0, kFloat16 = 6, kFloat32 = 7, kBfloat16 = 9;
inline constexpr std::uint8_t kSum = 0, kMax = 2, kAverage = 4;

class Topology {
 public:
  virtual ~Topology() = default;
  virtual void Step(int rank, int step, Ops* ops) const = 0;
};

// A change to what one rank does; all indices are those of the unchanged section.
struct Edit {
  enum class How { kInsert, kReplace, kCut } how = How::kInsert;  // kCut: in place of all from there on
  int section = 0;
  int index = 0;
  Ops ops;
};

struct Shape {  // what the user asks for
  std::string topology = "data";
  std::string fault = "healthy";
  int ranks = 8;
  int steps = 0;  // 0: by chance
  std::uint64_t seed = 1;
  bool late = false;  // the fault comes in the last step but one
};

struct Job : Workload {
  Shape shape;
  int steps = 1;
  bool by_split = false;   // how communicators beside the world's are made
  bool exchanges = false;  // every pair of ranks exchanges a message at the end of each step
  std::uint32_t ring = 256;
  std::uint32_t times_every = 0;                                    // one kernel in so many is timed; 0: none
  bool marks = true;                                                // of the GPU, where calls end
  enum class Starts { kNone, kSome, kAll } starts = Starts::kNone;  // ... and where they begin: on which ranks
  std::vector<std::vector<int>> comms_of;                           // by rank, in the order in which they are made
  std::unique_ptr<Topology> topology;
  std::map<int, std::vector<Edit>> edits;  // by rank

  int sections() const { return steps + 2; }
  bool Next(int rank, int section, Ops* ops) const override;
  Ops Section(int rank, int section) const;  // with the edits
  bool MarksStarts(int rank) const;
  // Adds a communicator that its members make in section 0. Only before any rank runs.
  int Add(Comm comm);
  // All communicators of one kind: every rank is in one of them.
  void AddAll(const std::vector<std::vector<int>>& groups, const std::string& label);
  int CommOf(int rank, const std::string& label) const;
  Ops PlainSection(int rank, int section) const;  // without
};

// Writes operations, each with a call site of its own.
class Writer {
 public:
  explicit Writer(Ops* ops) : ops_(ops) {}
  void Collective(Function function, int comm, std::uint64_t count, std::uint8_t dtype, std::uint8_t stream,
                  std::uint8_t reduction = format::kNoReduction, int root = -1);
  void AllReduce(int comm, std::uint64_t count, std::uint8_t dtype, std::uint8_t stream) {
    Collective(Function::ncclAllReduce, comm, count, dtype, stream, kSum);
  }
  void Message(Function function, int comm, int peer, std::uint64_t count, std::uint8_t dtype, std::uint8_t stream);
  void Send(int comm, int peer, std::uint64_t count, std::uint8_t stream) {
    Message(Function::ncclSend, comm, peer, count, kBfloat16, stream);
  }
  void Recv(int comm, int peer, std::uint64_t count, std::uint8_t stream) {
    Message(Function::ncclRecv, comm, peer, count, kBfloat16, stream);
  }
  void GroupStart() { Put({.what = Do::kGroupStart}); }
  void GroupEnd() { Put({.what = Do::kGroupEnd}); }
  void Kernel(std::uint8_t stream, std::int64_t ns) { Put({.what = Do::kKernel, .stream = stream, .ns = ns}); }
  void Wait(std::uint8_t stream, std::uint8_t other) { Put({.what = Do::kWait, .stream = stream, .other = other}); }
  void Sync(std::uint8_t stream) { Put({.what = Do::kSync, .stream = stream}); }
  void Work(std::int64_t ns) { Put({.what = Do::kWork, .ns = ns}); }
  void Put(Op op) { ops_->push_back(op); }

 private:
  Ops* ops_;
};

}  // namespace ncclwatch::jobs
