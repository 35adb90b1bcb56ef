#include "analyzer/export/torch_names.h"

#include <fmt/core.h>

#include <iterator>

#include "ncclwatch/format/fingerprint.h"

namespace ncclwatch::analyzer::exporting {

using functions::Function;

std::optional<TorchCall> ToTorchCall(const reader::Call& call, const reader::Communicator& communicator) {
  const std::uint64_t count = call.count, all = call.count * communicator.size;
  const bool root = call.root == static_cast<std::int32_t>(communicator.rank);
  const auto if_root = [&](std::uint64_t elements) { return root ? std::optional(elements) : std::nullopt; };
  switch (format::Canonical(call.function)) {
    case Function::ncclAllReduce: return TorchCall{"nccl:all_reduce", count, count};
    case Function::ncclBroadcast: return TorchCall{"nccl:broadcast", count, count};
    case Function::ncclReduce: return TorchCall{"nccl:reduce", count, count};
    case Function::ncclAllGather: return TorchCall{"nccl:_all_gather_base", count, all};
    case Function::ncclReduceScatter: return TorchCall{"nccl:_reduce_scatter_base", all, count};
    case Function::ncclAlltoAll: return TorchCall{"nccl:all_to_all", all, all};
    case Function::ncclGather: return TorchCall{"nccl:gather", count, if_root(all)};
    case Function::ncclScatter: return TorchCall{"nccl:scatter", if_root(all), count};
    case Function::ncclSend:
      return TorchCall{fmt::format("nccl:send {}->{}", communicator.rank, call.root), count, count};
    case Function::ncclRecv:
      return TorchCall{fmt::format("nccl:recv {}<-{}", communicator.rank, call.root), count, count};
    default: return std::nullopt;
  }
}

std::string_view TorchTypeName(std::uint8_t dtype) {
  // By number of ncclDataType_t.
  static constexpr std::string_view kNames[] = {"Char", "Byte",  "Int",    "UInt32",   "Long",          "UInt64",
                                                "Half", "Float", "Double", "BFloat16", "Float8_e4m3fn", "Float8_e5m2"};
  return dtype < std::size(kNames) ? kNames[dtype] : "Undefined";
}

}  // namespace ncclwatch::analyzer::exporting
