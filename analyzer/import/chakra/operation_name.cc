#include "analyzer/import/chakra/operation_name.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <utility>

#include "ncclwatch/format/record.h"
#include "ncclwatch/functions/types.h"

namespace ncclwatch::analyzer::import::chakra {
namespace {

using functions::Function;

// A name may contain a shorter one: the longer ones come first.
constexpr std::pair<std::string_view, Function> kParts[] = {
    {"sendrecv", Function::kNone},
    {"allreduce", Function::ncclAllReduce},
    {"reducescatter", Function::ncclReduceScatter},
    {"allgather", Function::ncclAllGather},
    {"alltoall", Function::ncclAlltoAll},
    {"broadcast", Function::ncclBroadcast},
    {"barrier", Function::ncclAllReduce},  // NCCL has none: torch reduces one element
    {"scatter", Function::ncclScatter},
    {"gather", Function::ncclGather},
    {"reduce", Function::ncclReduce},
    {"send", Function::ncclSend},
    {"recv", Function::ncclRecv},
};

constexpr std::pair<std::string_view, std::string_view> kTypes[] = {
    {"bfloat16", "bfloat16"}, {"half", "float16"},        {"double", "float64"},
    {"float", "float32"},     {"unsigned char", "uint8"}, {"byte", "uint8"},
    {"char", "int8"},         {"long", "int64"},          {"int", "int32"},
};

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return lower;
}

}  // namespace

Function FunctionIn(std::string_view name) {
  std::string plain = Lower(name);
  std::erase_if(plain, [](char c) { return c == '_' || c == '-'; });
  for (const auto& [part, function] : kParts)
    if (plain.find(part) != std::string::npos) return function;
  return Function::kNone;
}

Function FunctionOf(std::int64_t comm_type) {
  switch (comm_type) {
    case 0: return Function::ncclAllReduce;
    case 1: return Function::ncclReduce;
    case 2: return Function::ncclAllGather;
    case 3: return Function::ncclGather;
    case 4: return Function::ncclScatter;
    case 5: return Function::ncclBroadcast;
    case 6: return Function::ncclAlltoAll;
    case 7:
    case 8: return Function::ncclReduceScatter;
    case 9: return Function::ncclAllReduce;  // a barrier
    default: return Function::kNone;
  }
}

std::uint8_t DatatypeIn(std::string_view name) {
  const std::string plain = Lower(name);
  for (const auto& [part, ours] : kTypes)
    if (plain.find(part) != std::string::npos)
      for (std::size_t i = 0; i < std::size(functions::kDatatypes); ++i)
        if (functions::kDatatypes[i].name == ours) return static_cast<std::uint8_t>(i);
  return format::kNoType;
}

}  // namespace ncclwatch::analyzer::import::chakra
