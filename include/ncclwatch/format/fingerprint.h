// The shape fingerprint of a collective: equal on two ranks exactly if the library would accept the two calls as one.
//
// MPI: operation, reduction, root, and the signature of what all ranks must agree about (shim/mpi/describe.h).
// Reductions compare operation, count, datatype, reduction and root. Collectives that only move bytes (AllGather,
// Broadcast, AlltoAll, Gather, Scatter) compare bytes: 4 x int8 against 1 x float32 is legal. A user-made reduction's
// handle differs per process, so that it is a user-made one is all that is compared.
#pragma once

#include <cstdint>

#include "ncclwatch/functions/function.h"
#include "ncclwatch/functions/types.h"

namespace ncclwatch::format {

constexpr std::uint64_t Mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = (a ^ (b + 0x9e3779b97f4a7c15ull + (a << 6) + (a >> 2))) * 0xff51afd7ed558ccdull;
  return x ^ (x >> 32);
}

// Spellings of one operation: ncclBcast is ncclBroadcast in place, ncclXConfig is ncclX with hints.
constexpr functions::Function Canonical(functions::Function function) {
  using functions::Function;
  switch (function) {
    case Function::ncclBcast:
    case Function::ncclBroadcastConfig: return Function::ncclBroadcast;
    case Function::ncclAllReduceConfig: return Function::ncclAllReduce;
    case Function::ncclReduceConfig: return Function::ncclReduce;
    case Function::ncclAllGatherConfig: return Function::ncclAllGather;
    case Function::ncclReduceScatterConfig: return Function::ncclReduceScatter;
    case Function::ncclAlltoAllConfig: return Function::ncclAlltoAll;
    case Function::ncclGatherConfig: return Function::ncclGather;
    case Function::ncclScatterConfig: return Function::ncclScatter;
    default: return functions::WithSmallCounts(function);
  }
}

constexpr bool MovesBytes(functions::Function function) {
  using functions::Function;
  switch (Canonical(function)) {
    case Function::ncclAllGather:
    case Function::ncclBroadcast:
    case Function::ncclAlltoAll:
    case Function::ncclGather:
    case Function::ncclScatter:
    case Function::ncclSend:
    case Function::ncclRecv: return true;
    default: return false;
  }
}

// signature: of MPI alone, for which count and dtype say nothing: 4 x MPI_INT is 1 x a type of 4 MPI_INT.
constexpr std::uint64_t Fingerprint(functions::Function function, std::uint64_t count, std::uint8_t dtype,
                                    std::uint8_t reduction, std::int32_t root, std::uint32_t signature) {
  if (functions::IsMpi(function)) {
    const std::uint64_t shape = (std::uint64_t{static_cast<std::uint32_t>(Canonical(function))} << 40) |
                                (std::uint64_t{reduction} << 32) | static_cast<std::uint32_t>(root);
    return Mix(shape, signature);
  }
  const bool bytes = MovesBytes(function);
  const std::uint64_t amount = bytes ? count * functions::DatatypeBytes(dtype) : count;
  const std::uint64_t shape = (std::uint64_t{static_cast<std::uint32_t>(Canonical(function))} << 48) |
                              (std::uint64_t{bytes ? std::uint8_t{0xff} : dtype} << 40) |
                              (std::uint64_t{reduction} << 32) | static_cast<std::uint32_t>(root);
  return Mix(shape, amount);
}

// chain over [0, p] = Chain(chain over [0, p - 1], fingerprint at p); it starts at 0.
constexpr std::uint64_t Chain(std::uint64_t chain, std::uint64_t fingerprint) { return Mix(chain, fingerprint); }

}  // namespace ncclwatch::format
