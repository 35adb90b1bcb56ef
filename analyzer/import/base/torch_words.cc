#include "analyzer/import/base/torch_words.h"

#include <algorithm>
#include <charconv>

#include "ncclwatch/format/record.h"

namespace ncclwatch::analyzer::import {
namespace {

using functions::Function;

struct Row {
  std::string_view name;
  Function function;
  Amount amount;
};

// Names of every version of torch. What a barrier does in NCCL is an AllReduce.
constexpr Row kRows[] = {
    {"all_reduce", Function::ncclAllReduce, Amount::kInput},
    {"allreduce_coalesced", Function::ncclAllReduce, Amount::kInput},
    {"ALLREDUCE_coalesced", Function::ncclAllReduce, Amount::kInput},
    {"all_reduce_barrier", Function::ncclAllReduce, Amount::kInput},
    {"barrier", Function::ncclAllReduce, Amount::kInput},
    {"broadcast", Function::ncclBroadcast, Amount::kInput},
    {"_broadcast_oop", Function::ncclBroadcast, Amount::kInput},
    {"reduce", Function::ncclReduce, Amount::kInput},
    {"_reduce_oop", Function::ncclReduce, Amount::kInput},
    {"all_gather", Function::ncclAllGather, Amount::kInput},
    {"all_gather_single", Function::ncclAllGather, Amount::kInput},
    {"_all_gather_base", Function::ncclAllGather, Amount::kInput},
    {"_allgather_base", Function::ncclAllGather, Amount::kInput},
    {"all_gather_into_tensor_coalesced", Function::ncclAllGather, Amount::kInput},
    {"allgather_coalesced", Function::ncclAllGather, Amount::kInput},
    {"ALLGATHER_coalesced", Function::ncclAllGather, Amount::kInput},
    {"_ALLGATHER_BASE_coalesced", Function::ncclAllGather, Amount::kInput},
    {"all_gather_v", Function::ncclAllGather, Amount::kByRank},
    {"reduce_scatter", Function::ncclReduceScatter, Amount::kOutput},
    {"reduce_scatter_single", Function::ncclReduceScatter, Amount::kOutput},
    {"_reduce_scatter_base", Function::ncclReduceScatter, Amount::kOutput},
    {"reduce_scatter_tensor_coalesced", Function::ncclReduceScatter, Amount::kOutput},
    {"REDUCE_SCATTER_coalesced", Function::ncclReduceScatter, Amount::kOutput},
    {"_REDUCE_SCATTER_BASE_coalesced", Function::ncclReduceScatter, Amount::kOutput},
    {"reduce_scatter_v", Function::ncclReduceScatter, Amount::kByRank},
    {"gather", Function::ncclGather, Amount::kInput},
    {"scatter", Function::ncclScatter, Amount::kOutput},
    {"all_to_all", Function::ncclAlltoAll, Amount::kByRank},
    {"all_to_all_single", Function::ncclAlltoAll, Amount::kByRank},
    {"all_to_all_v_single", Function::ncclAlltoAll, Amount::kByRank},
    {"send", Function::ncclSend, Amount::kInput},
    {"recv", Function::ncclRecv, Amount::kOutput},
    // Where a call's parameters are recorded ("record_param_comms"), some have other names.
    {"allreduce", Function::ncclAllReduce, Amount::kInput},
    {"allgather", Function::ncclAllGather, Amount::kInput},
    {"allgather_into_tensor_coalesced", Function::ncclAllGather, Amount::kInput},
    {"all_to_allv", Function::ncclAlltoAll, Amount::kByRank},
    {"alltoall", Function::ncclAlltoAll, Amount::kByRank},
};

// "0->1" of a send, "1<-0" of a receive: the second of the two, -1 where it says "?".
std::int32_t PeerOf(std::string_view ranks) {
  const std::size_t arrow = ranks.find_first_of("-<");
  if (arrow == std::string_view::npos || arrow + 2 > ranks.size()) return -1;
  const std::string_view peer = ranks.substr(arrow + 2);
  std::int32_t number = -1;
  const auto [end, error] = std::from_chars(peer.data(), peer.data() + peer.size(), number);
  return error == std::errc() && end == peer.data() + peer.size() && number >= 0 ? number : -1;
}

Completion CompletionOf(std::string_view backend) {
  for (const std::string_view own : {"nccl", "ncclx", "nccl-lazy", "rccl", "rcclx", "xccl", "mccl", "hccl"})
    if (backend == own) return Completion::kByState;
  return backend == "gloo" ? Completion::kByRetired : Completion::kUnknown;
}

}  // namespace

Operation ParseOperation(std::string_view profiling_name) {
  Operation operation;
  // From the right: a backend's name may hold a colon, an operation's never does.
  const std::size_t colon = profiling_name.rfind(':');
  if (colon != std::string_view::npos) operation.completion = CompletionOf(profiling_name.substr(0, colon));
  const std::string_view rest = profiling_name.substr(colon == std::string_view::npos ? 0 : colon + 1);
  const std::string_view name = rest.substr(0, rest.find(' '));
  const auto is_upper = [](char letter) { return letter >= 'A' && letter <= 'Z'; };
  operation.ends_coalesced =
      name == "coalesced" || (name.ends_with("_coalesced") && std::any_of(name.begin(), name.end(), is_upper));
  for (const Row& row : kRows) {
    if (row.name != name) continue;
    operation.function = row.function;
    operation.amount = row.amount;
  }
  if (name.size() < rest.size()) operation.peer = PeerOf(rest.substr(name.size() + 1));
  return operation;
}

ScalarType ParseScalarType(std::string_view name) {
  // By number of ncclDataType_t; Bool and Byte are one to NCCL, as torch passes them.
  struct Name {
    std::string_view name;
    ScalarType type;
  };
  static constexpr Name kNames[] = {
      {"Float", {7, 1}},        {"BFloat16", {9, 1}},     {"Half", {6, 1}},          {"Double", {8, 1}},
      {"Long", {4, 1}},         {"Int", {2, 1}},          {"Char", {0, 1}},          {"Byte", {1, 1}},
      {"Bool", {1, 1}},         {"UInt32", {3, 1}},       {"UInt64", {5, 1}},        {"Float8_e4m3fn", {10, 1}},
      {"Float8_e5m2", {11, 1}}, {"ComplexFloat", {7, 2}}, {"ComplexDouble", {8, 2}}, {"ComplexHalf", {6, 2}},
  };
  for (const Name& known : kNames)
    if (known.name == name) return known.type;
  return {format::kNoType, 1};
}

}  // namespace ncclwatch::analyzer::import
