// What is simulated: the operations of each rank, the communicators that they speak of, and how hosts, network and NCCL
// behave. Whoever has a job to simulate derives from Workload: a generator of jobs, or a recording.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "ncclwatch/format/black_box.h"
#include "ncclwatch/functions/function.h"

namespace ncclwatch::simulation {

using functions::Function;

inline constexpr std::int64_t kNever = INT64_MAX;
// No recording of this length exists, however often instants are added up.
inline constexpr std::int64_t kLongest = kNever / 4;
inline constexpr std::int64_t kMicro = 1'000, kMilli = 1'000'000, kSecond = 1'000'000'000;

// Of a recording that lies about its times, too.
constexpr std::int64_t Later(std::int64_t at, std::int64_t ns) {
  return std::min(at, kLongest) + std::min(ns, kLongest);
}

// Streams of a rank: its computation, and what frameworks use for communication beside it.
inline constexpr std::uint8_t kCompute = 0, kAside = 1, kPipe = 2;
inline constexpr int kStreams = 8;

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

  // Of recorded jobs. Each of MPI's calls that waits is made of these: it is entered, begins its message or its part of
  // a collective, awaits the end, and leaves.
  kBegin,    // a message or collective of MPI: entered, and under way; MPI_Isend and the like
  kEnter,    // any other call, `ns` long; kNever: until kLeave
  kMeet,     // a call of MPI that all of communicator `comm` make, which moves nothing: it makes or frees something
  kAwait,    // the host waits for what was begun with record `count` of this rank
  kLeave,    // record `count` returns
  kForever,  // the host waits for ever: a call that never returned, and whose reason is not in the recording
};

struct Op {
  Do what = Do::kWork;
  std::uint8_t stream = kCompute;
  std::uint8_t other = kCompute;
  std::uint8_t dtype = format::kNoType;
  std::uint8_t reduction = format::kNoReduction;
  bool stalls = false;             // begun everywhere, it never ends
  bool planted = false;            // the fault, or its beginning
  bool sends = false;              // kBegin of a message of MPI
  bool synchronous = false;        // ... it ends once it is received, however small
  bool buffered = false;           // ... it waits for nobody, however large
  std::int32_t result = 0;         // what NCCL returns
  std::int32_t root = -1;          // root, peer; of a split its parent; of an exit its status
  std::int32_t comm = -1;          // index into Workload::comms
  std::uint32_t claimed_size = 0;  // of an init: what the rank thinks, 0: the truth
  Function function = Function::kNone;
  std::uint64_t count = 0;
  std::int64_t before_ns = 0;  // the host does something else first, exactly so long
  std::int64_t ns = 0;         // kCall: what it costs the host, 0: as usual
  std::uint32_t site = 0;
  float longer = 1;  // kCall: so many times as long as usual its data take, where all costs are known

  // Of MPI.
  std::int32_t tag = -1;
  std::uint32_t signature = 0;
  std::uint64_t bytes = 0;
};
using Ops = std::vector<Op>;

// What communication costs where it is not left to chance. Messages by LogGP (Alexandrov et al., 1995): latency L,
// overhead o of each side, and G for each byte; collectives as trees and rings of such messages.
struct Costs {
  double latency_ns = 1'000;
  double overhead_ns = 300;
  double byte_ns = 0.1;
  double step_ns = 1'600;      // of a step of MPI's trees
  std::uint64_t eager = 4096;  // sends up to so many bytes end before they are received
  // How much later than it could a call of MPI that may wait ends: quantiles, drawn from at random; empty: not later.
  std::vector<std::int64_t> late_ns;
  double gpu_latency_ns = 8'000;  // of NCCL: of each step of a ring or tree
  double gpu_byte_ns = 0.01;

  // `stretch`: how many times slower than usual the ranks' links are.
  std::int64_t Collective(const Op& op, int ranks, double stretch) const;
  std::int64_t NcclMessage(std::uint64_t bytes, double stretch) const;
  std::int64_t MpiMessage(std::uint64_t bytes, double stretch) const;  // from one side's call to the other's end
  std::int64_t Overhead() const { return Rounded(overhead_ns); }

 private:
  static std::int64_t Rounded(double ns);
};

// Of a tree over so many ranks.
int TreeSteps(int ranks);

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

class Workload {
 public:
  Workload() = default;
  Workload(const Workload&) = default;
  Workload& operator=(const Workload&) = default;
  virtual ~Workload() = default;
  // A rank's operations are asked for in order: those of section 0, 1, and so on. False: there are no more.
  virtual bool Next(int rank, int section, Ops* ops) const = 0;

  // When its host begins, of a recording; kNever: left to chance.
  virtual std::int64_t Begins(int /*rank*/) const { return kNever; }

  // How many records it will have, if that is known.
  virtual std::size_t Calls(int /*rank*/) const { return 0; }
  // Communicators that the rank need not make. It calls only on those, and on what it has made.
  virtual std::vector<int> Has(int /*rank*/) const { return {}; }

  // How many times longer a byte takes between two job ranks, or, from < 0, in a collective.
  virtual double Stretch(int /*comm*/, int /*from*/, int /*to*/) const { return 1; }

  virtual int node_of(int rank) const { return rank / per_node; }
  int nodes() const { return (ranks + per_node - 1) / per_node; }

  int ranks = 0;
  int per_node = 8;
  std::uint64_t seed = 1;        // of all that is left to chance
  std::vector<Comm> comms;       // [0] is the world
  const Costs* costs = nullptr;  // null: left to chance
  std::uint64_t eager = 0;       // sends up to so many bytes end before they are received
  bool details = true;           // of each call (Detail) are kept
  double jitter = 0.1;           // of what takes time, at most this share
  double pause = 0;              // chance of a pause of the host before an operation, and how long at most
  std::int64_t longest_pause = 0;
  // What calls that differ do. NCCL compares nothing: all hang, all end with wrong data, or those that move less end.
  enum class Differ { kHang, kPass, kLessEnds } differ = Differ::kHang;
};

}  // namespace ncclwatch::simulation
