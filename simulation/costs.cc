// What communication costs in the model: one function for each kind of it.
#include <algorithm>
#include <bit>
#include <cmath>

#include "ncclwatch/functions/pattern.h"
#include "simulation/workload.h"

namespace ncclwatch::simulation {

using functions::Pattern;

int TreeSteps(int ranks) {
  return std::max(1, static_cast<int>(std::bit_width(static_cast<unsigned>(std::max(ranks - 1, 0)))));
}

std::int64_t Costs::Rounded(double ns) {
  constexpr double kDay = 86'400e9;  // of an amount that nobody can move
  return std::max<std::int64_t>(1, std::llround(std::min(ns, kDay)));
}

// Trees of log2(n) steps for latency; each byte passes as often as a good algorithm lets it (Thakur et al., 2005).
std::int64_t Costs::Collective(const Op& op, int ranks, double stretch) const {
  const bool mpi = functions::IsMpi(op.function);
  const double n = std::max(ranks, 1), steps = TreeSteps(ranks);
  const double each_step_ns = mpi ? step_ns : gpu_latency_ns;
  const double each_byte_ns = (mpi ? byte_ns : gpu_byte_ns) * stretch * op.longer;
  const auto bytes = static_cast<double>(mpi ? op.bytes : op.count * functions::DatatypeBytes(op.dtype));
  double passes = 1;
  switch (mpi ? functions::PatternOfMpi(op.function) : functions::PatternOfNccl(op.function)) {
    case Pattern::kBarrier: passes = 0; break;
    case Pattern::kAllReduce: passes = 2 * (n - 1) / n; break;
    case Pattern::kAllGather:
    case Pattern::kAllToAll:
    case Pattern::kReduceScatter:
    case Pattern::kGather:
    case Pattern::kScatter: passes = n - 1; break;
    default: break;
  }
  return Rounded(steps * each_step_ns + passes * bytes * each_byte_ns);
}

std::int64_t Costs::NcclMessage(std::uint64_t bytes, double stretch) const {
  return Rounded(gpu_latency_ns + static_cast<double>(bytes) * gpu_byte_ns * stretch);
}

std::int64_t Costs::MpiMessage(std::uint64_t bytes, double stretch) const {
  return Rounded(latency_ns + overhead_ns + static_cast<double>(bytes) * byte_ns * stretch);
}

}  // namespace ncclwatch::simulation
