// What a call moves between whom, whatever its spelling: ncclAllReduceConfig, MPI_Iallreduce and MPI_Allreduce_c are
// all an AllReduce.
#pragma once

#include <cstdint>

#include "ncclwatch/functions/function.h"

namespace ncclwatch::functions {

enum class Pattern : std::uint8_t {
  kNone,  // no communication, or of another kind
  kBarrier,
  kBroadcast,
  kReduce,
  kAllReduce,
  kScan,
  kReduceScatter,
  kGather,
  kScatter,
  kAllGather,
  kAllToAll,
  kSend,
  kReceive,
};

// MPI_Allreduce of MPI_Iallreduce_c and MPI_Allreduce_init: of collectives, in the order of mpi.def.
constexpr Function BlockingOfMpi(Function function) {
  constexpr std::uint32_t kKinds = 17;
  const auto number = static_cast<std::uint32_t>(WithSmallCounts(function));
  for (const Function first : {Function::MPI_Barrier_init, Function::MPI_Ibarrier})
    if (const auto from = static_cast<std::uint32_t>(first); number >= from && number < from + kKinds)
      return static_cast<Function>(number - from + static_cast<std::uint32_t>(Function::MPI_Barrier));
  return static_cast<Function>(number);
}

// Of MPI, the order of mpi.def from MPI_Barrier on; immediate and persistent ones have the same order.
constexpr Pattern PatternOfMpi(Function function) {
  constexpr Pattern kPatterns[] = {
      Pattern::kBarrier,  Pattern::kBroadcast,     Pattern::kReduce,        Pattern::kAllReduce, Pattern::kScan,
      Pattern::kScan,     Pattern::kReduceScatter, Pattern::kReduceScatter, Pattern::kGather,    Pattern::kScatter,
      Pattern::kGather,   Pattern::kScatter,       Pattern::kAllGather,     Pattern::kAllToAll,  Pattern::kAllGather,
      Pattern::kAllToAll, Pattern::kAllToAll};
  constexpr std::uint32_t kCount = std::size(kPatterns);
  const auto number = static_cast<std::uint32_t>(WithSmallCounts(function));
  for (const Function first : {Function::MPI_Barrier, Function::MPI_Ibarrier, Function::MPI_Barrier_init})
    if (const std::uint32_t place = number - static_cast<std::uint32_t>(first); place < kCount) return kPatterns[place];
  return Pattern::kNone;
}
static_assert(PatternOfMpi(Function::MPI_Alltoallw) == Pattern::kAllToAll);
static_assert(PatternOfMpi(Function::MPI_Iallgather) == Pattern::kAllGather);
static_assert(PatternOfMpi(Function::MPI_Reduce_scatter_init) == Pattern::kReduceScatter);

constexpr Pattern PatternOfNccl(Function function) {
  switch (function) {
    case Function::ncclAllReduce:
    case Function::ncclAllReduceConfig: return Pattern::kAllReduce;
    case Function::ncclBroadcast:
    case Function::ncclBroadcastConfig:
    case Function::ncclBcast: return Pattern::kBroadcast;
    case Function::ncclReduce:
    case Function::ncclReduceConfig: return Pattern::kReduce;
    case Function::ncclReduceScatter:
    case Function::ncclReduceScatterConfig: return Pattern::kReduceScatter;
    case Function::ncclAllGather:
    case Function::ncclAllGatherConfig: return Pattern::kAllGather;
    case Function::ncclAlltoAll:
    case Function::ncclAlltoAllConfig: return Pattern::kAllToAll;
    case Function::ncclGather:
    case Function::ncclGatherConfig: return Pattern::kGather;
    case Function::ncclScatter:
    case Function::ncclScatterConfig: return Pattern::kScatter;
    case Function::ncclSend: return Pattern::kSend;
    case Function::ncclRecv: return Pattern::kReceive;
    default: return Pattern::kNone;
  }
}

}  // namespace ncclwatch::functions
