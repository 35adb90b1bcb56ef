#include <fmt/core.h>

#include <algorithm>

#include "analyzer/console/units.h"
#include "analyzer/doctor/checks/check.h"
#include "analyzer/doctor/checks/gpu.h"
#include "analyzer/doctor/checks/words.h"

namespace ncclwatch::doctor {
namespace {

using analyzer::BytesText;

Result MemoryAvailable(const Machine& machine) {
  const auto total = MemoryInfo(machine, "MemTotal"), available = MemoryInfo(machine, "MemAvailable");
  if (!total || !available) return Skip("the kernel does not tell");
  const std::string seen = fmt::format("{} available of {}", BytesText(*available), BytesText(*total));
  if (*available < *total / 10)
    return Warn(seen, "somebody else holds most of the memory", "end what is left of earlier jobs");
  return Pass(seen);
}

Result MemoryLimit(const Machine& machine) {
  const auto limit = CgroupLimit(machine, "memory.max", "memory/memory.limit_in_bytes");
  const auto total = MemoryInfo(machine, "MemTotal");
  if (!limit || (total && *limit >= static_cast<double>(*total))) return Pass("no limit below the host's memory");
  const auto bytes = static_cast<std::uint64_t>(*limit);
  const std::string seen = fmt::format("{} for this job on this host, {} for a rank", BytesText(bytes),
                                       BytesText(bytes / static_cast<unsigned>(machine.local_ranks())));
  constexpr std::uint64_t kOfRank = std::uint64_t{2} << 30;  // of a rank of torch with CUDA, before a model
  if (bytes / static_cast<unsigned>(machine.local_ranks()) < kOfRank)
    return Warn(seen, "little: a rank of torch with CUDA takes 2 GiB before it has a model",
                "ask for more memory (--mem, resources.limits.memory)");
  return Pass(seen);
}

// Parameters, gradients and optimizer by the count of parameters, shared by the shards; activations on top.
Result Budget(const Machine& machine) {
  const MemoryBudget& budget = machine.budget;
  if (budget.parameters <= 0) return Skip("no model was described (--parameters)");
  const double of_parameter = 2 * budget.bytes_of_parameter + budget.bytes_of_optimizer;
  const auto needed =
      static_cast<std::uint64_t>(budget.parameters * of_parameter / std::max(1.0, budget.shards)) + budget.activations;
  const GpuSample& look = LookAtGpus();
  if (!look.gpus || look.gpus->all.empty())
    return Skip(fmt::format("a rank needs {}, and there is no GPU to compare with", BytesText(needed)));
  std::uint64_t free = UINT64_MAX;
  for (const Gpu& gpu : look.gpus->all) free = std::min(free, gpu.memory_free);
  const std::string seen =
      fmt::format("a rank needs {}, {} are free on the fullest GPU", BytesText(needed), BytesText(free));
  const char* const advice =
      "more shards (FSDP, ZeRO), activation checkpointing, a smaller batch, or a smaller optimizer";
  if (needed > free) return Fail(seen, "the model does not fit", advice);
  if (static_cast<double>(needed) > 0.9 * static_cast<double>(free))
    return Warn(seen, "above nine tenths: fragments and NCCL's buffers may not fit", advice);
  return Pass(seen);
}

Result Swap(const Machine& machine) {
  const auto total = MemoryInfo(machine, "SwapTotal"), free = MemoryInfo(machine, "SwapFree");
  if (!total || !free) return Skip("the kernel does not tell");
  if (*total - *free > *total / 10)
    return Warn(fmt::format("{} of {} in use", BytesText(*total - *free), BytesText(*total)),
                "a rank that is swapped in holds up all", "swapoff -a, and find who takes the memory");
  return Pass(*total == 0 ? "no swap" : fmt::format("{}, hardly used", BytesText(*total)));
}

// "some avg10=0.00 avg60=0.00 avg300=0.00 total=0"
Result MemoryPressure(const Machine& machine) {
  const auto text = machine.Read("/proc/pressure/memory");
  const std::size_t at = text ? text->find("avg60=") : std::string::npos;
  if (at == std::string::npos) return Skip("the kernel does not tell pressure");
  const double share = std::strtod(text->c_str() + at + 6, nullptr);
  if (share > 5)
    return Warn(fmt::format("{:.1f} % of the last minute", share), "processes wait for memory already",
                "end what is left of earlier jobs, or ask for more memory");
  return Pass(fmt::format("{:.1f} % of the last minute", share));
}

Result Overcommit(const Machine& machine) {
  const auto mode = machine.Number("/proc/sys/vm/overcommit_memory");
  if (!mode) return Skip("the kernel does not tell");
  if (*mode == 2)
    return Warn("vm.overcommit_memory=2", "fork() of a large rank fails: data loaders do not start",
                "sysctl vm.overcommit_memory=0");
  return Pass(fmt::format("vm.overcommit_memory={:.0f}", *mode));
}

constexpr Check kMemoryChecks[] = {
    {"memory-available", "the host's memory", kAnyPhase, MemoryAvailable},
    {"memory-limit", "limit of the job or container", kAnyPhase, MemoryLimit},
    {"memory-budget", "parameters, gradients, optimizer, activations", kAnyPhase, Budget},
    {"swap", "swap in use", kLongRun | kScaleUp, Swap},
    {"memory-pressure", "waiting for memory", kAnyPhase, MemoryPressure},
    {"overcommit", "whether a large process may fork", kAnyPhase, Overcommit},
};

}  // namespace

std::span<const Check> MemoryChecks() { return kMemoryChecks; }

}  // namespace ncclwatch::doctor
