// What the ranks of a job do: each is a sequence of operations, made section by section (0 begins the job, 1 to `steps`
// are its training steps, the last one ends it), and the communicators that they speak of.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ncclwatch/format/black_box.h"
#include "ncclwatch/functions/function.h"

namespace ncclwatch::jobs {

using functions::Function;

inline constexpr std::int64_t kNever = INT64_MAX;
inline constexpr std::int64_t kMicro = 1'000, kMilli = 1'000'000, kSecond = 1'000'000'000;
inline constexpr std::uint8_t kInt8 = 0, kFloat16 = 6, kFloat32 = 7, kBfloat16 = 9;
inline constexpr std::uint8_t kSum = 0, kMax = 2, kAverage = 4;

// Streams of a rank: its computation, and what frameworks use for communication beside it.
inline constexpr std::uint8_t kCompute = 0, kAside = 1, kPipe = 2;
inline constexpr int kStreams = 3;

enum class Do : std::uint8_t {
  kCall,        // a collective, ncclSend or ncclRecv
  kGroupStart,  //
  kGroupEnd,    //
  kInit,        // ncclCommInitRank
  kSplit,       // ncclCommSplit of `root`th parent; comm is the child, -1 with no colour
  kDestroy,     //
  kKernel,      // a kernel of the application on `stream`, `ns` long
  kWait,        // `stream` waits for what `other` has been given so far
  kSync,        // the host waits for `stream`
  kWork,        // the host does something else for `ns`
  kAllocate,    // memory of the device is refused; root 1: granted a little later
  kHang,        // the host never gets any further
  kExit,        // status `root`
};

struct Op {
  Do what = Do::kWork;
  std::uint8_t stream = kCompute;
  std::uint8_t other = kCompute;
  std::uint8_t dtype = format::kNoType;
  std::uint8_t reduction = format::kNoReduction;
  bool stalls = false;             // begun everywhere, it never ends
  bool planted = false;            // the fault, or its beginning
  std::int32_t result = 0;         // what NCCL returns
  std::int32_t root = -1;          // root, peer; of a split its parent; of an exit its status
  std::int32_t comm = -1;          // index into Job::comms
  std::uint32_t claimed_size = 0;  // of an init: what the rank thinks, 0: the truth
  Function function = Function::kNone;
  std::uint64_t count = 0;
  std::int64_t ns = 0;
  std::uint32_t site = 0;
};
using Ops = std::vector<Op>;

inline bool IsMessage(const Op& op) {
  return op.what == Do::kCall && (op.function == Function::ncclSend || op.function == Function::ncclRecv);
}
inline bool IsCollective(const Op& op) { return op.what == Do::kCall && !IsMessage(op); }

struct Comm {
  std::vector<int> members;  // job ranks by communicator rank
  std::string label;
  int parent = -1;
  std::uint64_t ordinal = 0;  // among the splits of the parent
  std::int32_t color = 0;

  int size() const { return static_cast<int>(members.size()); }
  int RankOf(int rank) const;  // -1: not in it
};

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

struct Job {
  Shape shape;
  int steps = 1;
  int per_node = 8;
  bool by_split = false;    // how communicators beside the world's are made
  bool exchanges = false;   // every pair of ranks exchanges a message at the end of each step
  std::uint64_t eager = 0;  // sends up to so many bytes end before they are received
  double jitter = 0.1;
  double pause = 0;  // chance of a pause of the host before an operation, and how long at most
  std::int64_t longest_pause = 0;
  // What calls that differ do. NCCL compares nothing: all hang, all end with wrong data, or those that move less end.
  enum class Differ { kHang, kPass, kLessEnds } differ = Differ::kHang;
  std::uint32_t ring = 256;
  bool marks = true;                                                // of the GPU, where calls end
  enum class Starts { kNone, kSome, kAll } starts = Starts::kNone;  // ... and where they begin: on which ranks
  std::vector<Comm> comms;                                          // [0] is the world
  std::vector<std::vector<int>> comms_of;                           // by rank, in the order in which they are made
  std::unique_ptr<Topology> topology;
  std::map<int, std::vector<Edit>> edits;  // by rank

  int sections() const { return steps + 2; }
  int node_of(int rank) const { return rank / per_node; }
  bool MarksStarts(int rank) const;
  int nodes() const { return (shape.ranks + per_node - 1) / per_node; }
  // Adds a communicator that its members make in section 0. Only before any rank runs.
  int Add(Comm comm);
  // All communicators of one kind: every rank is in one of them.
  void AddAll(const std::vector<std::vector<int>>& groups, const std::string& label);
  int CommOf(int rank, const std::string& label) const;
  Ops Section(int rank, int section) const;       // with the edits
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
