// What torch's names mean, as its flight recorder and its profiler write them: "nccl:all_reduce", "nccl:send 0->1",
// "allreduce", "Float".
#pragma once

#include <cstdint>
#include <string_view>

#include "ncclwatch/functions/function.h"

namespace ncclwatch::analyzer::import {

// Which tensors of an entry tell the count that NCCL is given.
enum class Amount : std::uint8_t {
  kInput,
  kOutput,
  kByRank,  // differs from rank to rank by right: not compared
};

// When an entry says that its work is done.
enum class Completion : std::uint8_t {
  kByState,    // "completed"; retired without it means timed out (NCCL's own backends)
  kByRetired,  // never "completed": retired when the work ended, well or not (gloo)
  kUnknown,    // "completed" if the backend reports it, else retired when it was issued
};

struct Operation {
  functions::Function function = functions::Function::kNone;  // kNone: not known here
  Amount amount = Amount::kInput;
  Completion completion = Completion::kUnknown;
  bool ends_coalesced = false;  // the entry that stands for the launch of those before it
  std::int32_t peer = -1;       // of a send or receive, rank in the group; -1: from anyone, or not said
};

Operation ParseOperation(std::string_view profiling_name);

struct ScalarType {
  std::uint8_t dtype;       // ncclDataType_t, format::kNoType if NCCL has none
  std::uint8_t multiplier;  // elements of it that make one (complex numbers)
};
ScalarType ParseScalarType(std::string_view name);

}  // namespace ncclwatch::analyzer::import
