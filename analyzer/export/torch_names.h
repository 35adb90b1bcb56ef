// How torch's flight recorder names what NCCL does, and the sizes of the tensors that such a call has.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "watchdog/reader/image.h"

namespace ncclwatch::analyzer::exporting {

struct TorchCall {
  std::string name;                            // "nccl:all_reduce", "nccl:send 0->1"
  std::optional<std::uint64_t> input, output;  // elements; none: no such tensor
};

// None for what the recorder knows no name for.
std::optional<TorchCall> ToTorchCall(const reader::Call& call, const reader::Communicator& communicator);
std::string_view TorchTypeName(std::uint8_t dtype);  // "Float"

}  // namespace ncclwatch::analyzer::exporting
