// What names tell: those of trace files, and of kernels on the GPU.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ncclwatch/format/kernel_time.h"
#include "ncclwatch/functions/function.h"

namespace ncclwatch::analyzer::import::kineto {

struct FileName {
  int rank = -1;
  std::string host;
  std::uint32_t pid = 0;
};
// "worker3_step_12.1694128201545.pt.trace.json", "rank-3.json.gz", "trace_3.json",
// "node7_4021.1694128201545.pt.trace.json".
FileName FactsIn(const std::string& path);

enum class Activity : std::uint8_t { kNone, kKernel, kCopy };
Activity ActivityOf(std::string_view category);  // of a GPU

// NCCL's own or that of a library like it (RCCL, MSCCL, oneCCL).
bool IsCommunication(std::string_view kernel);
// What ran: kNone where one kernel does for several operations, as for sends, receives and all-to-all.
functions::Function FunctionOf(std::string_view kernel);
format::Algorithm AlgorithmOf(std::string_view kernel);
format::Protocol ProtocolOf(std::string_view kernel);
// Without the arguments of its function.
std::string_view ShortName(std::string_view kernel);

// The number of "ProfilerStep#12", -1 for other names.
std::int64_t StepIn(std::string_view name);

// Of "nccl:all_reduce": "nccl". Empty: not the name of an operation of a process group.
std::string_view BackendIn(std::string_view annotation);
bool IsOnGpu(std::string_view backend);

}  // namespace ncclwatch::analyzer::import::kineto
