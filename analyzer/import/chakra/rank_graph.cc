#include "analyzer/import/chakra/rank_graph.h"

#include <absl/strings/match.h>

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

#include "analyzer/import/chakra/operation_name.h"
#include "core/reader/layout.h"
#include "ncclwatch/functions/types.h"

namespace ncclwatch::analyzer::import::chakra {
namespace {

using functions::Function;
using nlohmann::json;

constexpr std::int64_t kUntimedBegin_ns = 1'000'000'000;  // 0 is no instant
constexpr std::uint64_t kHost = 1, kGpu = 2;              // lanes; streams of the GPU come after

std::int64_t NumberIn(const json& attributes, const char* key, std::int64_t missing) {
  const auto found = attributes.find(key);
  return found != attributes.end() && found->is_number_integer() ? found->get<std::int64_t>() : missing;
}

std::string TextIn(const json& attributes, const char* key) {
  const auto found = attributes.find(key);
  if (found == attributes.end()) return "";
  return found->is_string() ? found->get<std::string>() : found->is_number_integer() ? found->dump() : "";
}

// A rank of the job; -1: there is none, or it cannot be.
int RankIn(const json& attributes, const char* key) {
  const std::int64_t rank = NumberIn(attributes, key, -1);
  return rank >= 0 && rank < static_cast<std::int64_t>(reader::kMaxCommunicatorSize) ? static_cast<int>(rank) : -1;
}

bool IsCommunication(NodeType type) { return type >= NodeType::kSend; }

bool IsOnHost(const Node& node) {
  const auto found = node.attributes.find("is_cpu_op");
  if (found == node.attributes.end()) return !IsCommunication(node.type);
  return *found == true || *found == 1;
}

reader::OperationKind KindOf(const Node& node) {
  if (IsCommunication(node.type)) return reader::OperationKind::kCommunication;
  if (node.type == NodeType::kLoad || node.type == NodeType::kStore) return reader::OperationKind::kCopy;
  return absl::StartsWith(node.name, "nccl") ? reader::OperationKind::kCommunication : reader::OperationKind::kCompute;
}

Function FunctionOfNode(const Node& node) {
  if (node.type == NodeType::kSend) return Function::ncclSend;
  if (node.type == NodeType::kReceive) return Function::ncclRecv;
  const Function told = FunctionOf(NumberIn(node.attributes, "comm_type", -1));
  return told != Function::kNone ? told : FunctionIn(node.name);
}

// Ranks may give different amounts.
bool IsByRank(const Node& node, Function function) {
  return function == Function::ncclAlltoAll || function == Function::ncclGather || function == Function::ncclScatter ||
         absl::StrContains(node.name, "coalesced");
}

// `amount` goes in on each rank; of what goes to each of them, NCCL counts one part.
std::uint64_t CountOf(Function function, std::uint64_t amount, bool torch, std::size_t ranks) {
  const bool parts = function == Function::ncclAlltoAll || function == Function::ncclScatter ||
                     (function == Function::ncclReduceScatter && !torch);
  return parts && ranks > 0 ? amount / ranks : amount;
}

}  // namespace

RankGraph::RankGraph(std::string path, int rank) {
  trace_.path = std::move(path);
  trace_.rank = highest_rank_ = rank;
}

void RankGraph::Add(const Node& node) {
  if (node.type == NodeType::kInvalid || node.type == NodeType::kMetadata) return;
  timed_ |= node.start_ns > 0;
  ordered_ |= !node.after.empty();
  const std::size_t place = trace_.operations.all.size();
  reader::Operation one;
  one.began_ns = node.start_ns;
  one.duration_ns = node.duration_ns;
  one.kind = KindOf(node);
  one.name = one.like = trace_.NameOf(node.name);
  one.bytes = static_cast<std::uint64_t>(
      std::max<std::int64_t>(0, NumberIn(node.attributes, "comm_size", NumberIn(node.attributes, "tensor_size", 0))));
  const auto stream = static_cast<std::uint64_t>(NumberIn(node.attributes, "stream", 0));
  one.lane = IsOnHost(node) ? kHost : kGpu + stream;
  trace_.operations.all.push_back(std::move(one));
  place_of_.try_emplace(node.id, static_cast<std::uint32_t>(place));
  ids_.push_back(node.id);
  after_.push_back(node.after);
  if (IsCommunication(node.type)) AddCall(node, place);
}

void RankGraph::AddGroups(const json& groups) {
  for (const json& one : groups) {
    if (!one.is_object() || !one.contains("ranks") || !one["ranks"].is_array()) continue;
    std::vector<int>& ranks = listed_[TextIn(one, "pg_name")];
    ranks.clear();
    for (const json& rank : one["ranks"])
      if (rank.is_number_integer()) ranks.push_back(rank.get<int>());
  }
}

void RankGraph::SetWorld(const json& ranks) {
  if (ranks.is_number_integer() && ranks > 0 && ranks <= reader::kMaxCommunicatorSize)
    highest_rank_ = std::max(highest_rank_, ranks.get<int>() - 1);
}

// False: whose ranks it is for is not told.
bool RankGraph::SetGroup(const Node& node, Call* call) {
  call->group = TextIn(node.attributes, "pg_name");
  if (!call->group.empty()) {
    groups_.insert(call->group);
    return true;
  }
  if (const std::int64_t address = NumberIn(node.attributes, "pg_address", 0); address != 0) {
    addresses_.insert(address);
    return addresses_.size() == 1;
  }
  const auto dimensions = node.attributes.find("involved_dim");
  return dimensions == node.attributes.end() || !dimensions->is_array() ||
         std::all_of(dimensions->begin(), dimensions->end(), [](const json& one) { return one == true || one == 1; });
}

// Simulators name both ends by their ranks in the job, torch the other one by its rank in the group.
void RankGraph::SetMessage(const Node& node, Call* call) {
  const bool sends = node.type == NodeType::kSend;
  reader::Call& record = call->traced.call;
  const int peer = RankIn(node.attributes, sends ? "comm_dst" : "comm_src");
  if (peer < 0) {
    record.root = RankIn(node.attributes, "peer");
    return;
  }
  record.root = peer;
  record.tag = static_cast<std::int32_t>(NumberIn(node.attributes, "comm_tag", 0));
  highest_rank_ = std::max(highest_rank_, peer);
  call->group.clear();
  call->no_group = false;
}

void RankGraph::AddCall(const Node& node, std::size_t operation) {
  Call call;
  reader::Call& record = call.traced.call;
  record.function = FunctionOfNode(node);
  if (record.function == Function::kNone) return;
  call.on_host = IsOnHost(node);
  call.no_group = !SetGroup(node, &call);
  const bool torch = call.torch = node.attributes.contains("elements");
  record.count = static_cast<std::uint64_t>(
      std::max<std::int64_t>(0, NumberIn(node.attributes, torch ? "elements" : "comm_size", 0)));
  record.dtype = torch ? DatatypeIn(TextIn(node.attributes, "dtype")) : 0;  // bytes
  if (functions::IsMessage(record.function)) SetMessage(node, &call);
  call.traced.by_rank = IsByRank(node, record.function);
  call.traced.operation = operation;
  unknown_groups_ += call.no_group;
  calls_.push_back(std::move(call));
}

// Their instants tell no more than their order then.
void RankGraph::OrderByDependencies() {
  std::vector<reader::Operation>& all = trace_.operations.all;
  std::vector<std::size_t> waits(all.size());
  std::vector<std::vector<std::uint32_t>> followers(all.size());
  for (std::size_t i = 0; i < all.size(); ++i)
    for (const std::uint32_t other : all[i].after) {
      followers[other].push_back(static_cast<std::uint32_t>(i));
      ++waits[i];
    }
  using Next = std::pair<std::uint64_t, std::uint32_t>;  // id, place
  std::priority_queue<Next, std::vector<Next>, std::greater<>> ready;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (waits[i] == 0) ready.push({ids_[i], static_cast<std::uint32_t>(i)});
  std::int64_t now_ns = kUntimedBegin_ns;
  for (reader::Operation& one : all) one.began_ns = 0;
  while (!ready.empty()) {
    const std::uint32_t place = ready.top().second;
    ready.pop();
    all[place].began_ns = now_ns++;
    for (const std::uint32_t other : followers[place])
      if (--waits[other] == 0) ready.push({ids_[other], other});
  }
  for (reader::Operation& one : all)  // in a cycle of dependencies
    if (one.began_ns == 0) one.began_ns = now_ns++;
}

void RankGraph::ResolveAfter() {
  trace_.operations.ordered = ordered_;
  for (std::size_t i = 0; i < after_.size(); ++i)
    for (const std::uint64_t id : after_[i])
      if (const auto found = place_of_.find(id); found != place_of_.end() && found->second != i)
        trace_.operations.all[i].after.push_back(found->second);
  after_.clear();
}

int RankGraph::PlaceOfGroup(const Call& call, int world, const GroupRanks& groups) {
  if (call.no_group) return -1;
  const auto found = groups.find(call.group);
  const bool all = call.group.empty() || found == groups.end() || found->second.empty();
  if (call.group.empty()) return trace_.GroupOf({.name = "all ranks", .size = world});
  return all ? trace_.GroupOf({.name = call.group, .size = world})
             : trace_.GroupOf({.name = call.group, .ranks = found->second});
}

Trace RankGraph::Take(int world, const GroupRanks& groups) {
  ResolveAfter();
  if (!timed_) OrderByDependencies();
  trace_.world_size = world;
  const bool gpu = std::any_of(calls_.begin(), calls_.end(), [](const Call& one) { return !one.on_host; });
  for (Call& one : calls_) {
    if (one.on_host && gpu) continue;
    TraceCall& traced = one.traced;
    const reader::Operation& operation = trace_.operations.all[traced.operation];
    traced.group = PlaceOfGroup(one, world, groups);
    traced.call.entered_ns = operation.began_ns;
    traced.call.returned_ns = operation.began_ns + (timed_ ? std::max<std::int64_t>(operation.duration_ns, 1) : 1);
    const TraceGroup* const group = traced.group < 0 ? nullptr : &trace_.groups[static_cast<std::size_t>(traced.group)];
    const std::size_t size = !group ? 0 : group->ranks.empty() ? static_cast<std::size_t>(world) : group->ranks.size();
    traced.call.count = CountOf(traced.call.function, traced.call.count, one.torch, size);
    trace_.calls.push_back(std::move(traced));
  }
  NumberByTag(&trace_);
  return std::move(trace_);
}

}  // namespace ncclwatch::analyzer::import::chakra
