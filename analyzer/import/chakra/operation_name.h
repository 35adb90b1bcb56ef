// Operations by the names that torch, NCCL's kernels and Chakra give them.
#pragma once

#include <string_view>

#include "analyzer/import/chakra/node.h"
#include "ncclwatch/functions/function.h"

namespace ncclwatch::analyzer::import::chakra {

// By what a name contains ("c10d::allreduce_", "ncclDevKernel_AllGather_RING_LL"); kNone: nothing known.
functions::Function FunctionIn(std::string_view name);
// By Chakra's `comm_type`.
functions::Function FunctionOf(std::int64_t comm_type);
// "Float", "Tensor(c10::Half)"; format::kNoType: not known.
std::uint8_t DatatypeIn(std::string_view name);

}  // namespace ncclwatch::analyzer::import::chakra
