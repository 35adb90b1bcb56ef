// How long the kernel of one call of NCCL ran, and how NCCL did it: 64 bits in the call's record, written in one piece
// once the kernel is over, which is later than the call's return.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace ncclwatch::format {

enum class KernelClock : std::uint8_t {
  kNone = 0,   // not timed
  kGpu = 1,    // the GPU's own timer
  kProxy = 2,  // NCCL's proxy thread saw the kernel begin and end: later than both, by how long it takes to look
};

enum class Algorithm : std::uint8_t {
  kUnknown = 0,
  kTree,
  kRing,
  kCollnetDirect,
  kCollnetChain,
  kNvls,
  kNvlsTree,
  kPat,
};

enum class Protocol : std::uint8_t { kUnknown = 0, kLl, kLl128, kSimple };

struct KernelTime {
  std::uint64_t ns = 0;  // from the first channel's begin to the last one's end, waiting for peers included
  KernelClock clock = KernelClock::kNone;
  Algorithm algorithm = Algorithm::kUnknown;
  Protocol protocol = Protocol::kUnknown;
  std::uint8_t channels = 0;  // that have been seen, at most kMostChannels
  bool operator==(const KernelTime&) const = default;
};

inline constexpr std::uint8_t kMostChannels = 64;
inline constexpr std::uint64_t kLongestKernel_ns = (std::uint64_t{1} << 48) - 1;  // three days

// Bits: 0 to 47 ns, 48 and 49 clock, 50 to 52 algorithm, 53 and 54 protocol, 55 to 61 channels.
constexpr std::uint64_t Pack(const KernelTime& time) {
  return std::min(time.ns, kLongestKernel_ns) | std::uint64_t(time.clock) << 48 | std::uint64_t(time.algorithm) << 50 |
         std::uint64_t(time.protocol) << 53 | std::uint64_t(std::min(time.channels, kMostChannels)) << 55;
}
constexpr KernelTime UnpackKernelTime(std::uint64_t bits) {
  const auto clock = static_cast<std::uint8_t>(bits >> 48 & 3);
  return {bits & kLongestKernel_ns, clock <= 2 ? KernelClock(clock) : KernelClock::kNone, Algorithm(bits >> 50 & 7),
          Protocol(bits >> 53 & 3),
          static_cast<std::uint8_t>(std::min<std::uint64_t>(bits >> 55 & 127, kMostChannels))};
}

inline constexpr std::string_view kAlgorithms[] = {"",     "TREE",      "RING", "COLLNET_DIRECT", "COLLNET_CHAIN",
                                                   "NVLS", "NVLS_TREE", "PAT"};
inline constexpr std::string_view kProtocols[] = {"", "LL", "LL128", "SIMPLE"};

// As NCCL calls them; empty: unknown.
constexpr std::string_view Name(Algorithm algorithm) { return kAlgorithms[static_cast<std::uint8_t>(algorithm)]; }
constexpr std::string_view Name(Protocol protocol) { return kProtocols[static_cast<std::uint8_t>(protocol)]; }

}  // namespace ncclwatch::format
