#include "core/waits/launch_orders.h"

#include <algorithm>
#include <map>

namespace ncclwatch::diagnosis {
namespace {

using functions::Function;
using reader::Call;

// No rank of it finishes before all have begun. (The root of a broadcast may.)
bool NeedsEverybody(Function function) {
  return function == Function::ncclAllReduce || function == Function::ncclAllGather ||
         function == Function::ncclReduceScatter || function == Function::ncclAlltoAll;
}

struct Launch {
  Instance instance;
  const Call* call = nullptr;
};
using Stream = std::vector<Launch>;

Instance InstanceOf(int comm, const Member& member, const Call& call) {
  const auto own = static_cast<std::int32_t>(member.comm->rank);
  if (call.function == Function::ncclSend) return {comm, own, call.root, call.position};
  if (call.function == Function::ncclRecv) return {comm, call.root, own, call.position};
  return {comm, -1, -1, call.position};
}

void SortByTime(Stream* launches) {
  std::sort(launches->begin(), launches->end(),
            [](const Launch& a, const Launch& b) { return a.call->slot < b.call->slot; });
}

// Launches that the GPU has not finished, by stream. Streams 0 to 2 are the default ones: one for each device, and for
// each thread where the program was built so; the node stands for the device.
std::map<std::pair<std::uint64_t, std::uint32_t>, Stream> Streams(const View& view, const WaitGraph& graph,
                                                                  const Node& node) {
  std::map<std::pair<std::uint64_t, std::uint32_t>, Stream> streams;
  for (const auto& at : node.memberships) {
    const Member& member = view.member(at);
    if (!view.comms[at.first].comparable || !member.alive_in()) continue;
    for (const std::vector<const Call*>* calls : {&member.calls, &member.messages}) {
      for (const Call* call : *calls) {
        // MPI's calls are launched on no stream.
        if (functions::IsMpi(call->function) || !member.Outstanding(*call)) continue;
        if (!IsMessage(*call) && graph.Explains(at.first, call->position)) continue;
        const std::uint32_t thread = call->stream <= 2 ? call->thread : 0;
        streams[{call->stream, thread}].push_back({InstanceOf(at.first, member, *call), call});
      }
    }
  }
  for (auto& [stream, launches] : streams) SortByTime(&launches);
  return streams;
}

// A send may end before it is received, and the mark of a group is behind all that it launched.
bool Proves(const Launch& first, const Launch& second, bool alone) {
  const bool stuck = NeedsEverybody(first.call->function) || first.call->function == Function::ncclRecv;
  const bool needed = NeedsEverybody(second.call->function) || second.call->function == Function::ncclSend;
  return alone && stuck && needed;
}

// What is launched at once: one call, or a group.
using Batch = std::pair<Stream::const_iterator, Stream::const_iterator>;

std::vector<Batch> Batches(const Stream& launches) {
  std::vector<Batch> batches;
  for (auto at = launches.begin(); at != launches.end();) {
    const std::uint64_t group = at->call->group;
    auto end = at + 1;
    while (group != 0 && end != launches.end() && end->call->group == group) ++end;
    batches.push_back({at, end});
    at = end;
  }
  return batches;
}

bool OfOneCommunicator(const Batch& batch) {
  return std::all_of(batch.first, batch.second, [&](const Launch& launch) {
    return launch.instance.comm == batch.first->instance.comm && !IsMessage(*launch.call);
  });
}

void AddOrders(int node, const Stream& launches, Orders* orders) {
  constexpr std::ptrdiff_t kMany = 64;  // groups of more than that are not taken apart
  const std::vector<Batch> batches = Batches(launches);
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const auto& [begin, end] = batches[i];
    if (end - begin > kMany) continue;
    for (auto first = begin; first != end; ++first)
      for (auto second = begin; second != end; ++second)
        if (first->instance.comm != second->instance.comm)
          orders->in_groups.push_back({first->instance, second->instance, node, first->call, second->call, false});
    if (i + 1 == batches.size() || batches[i + 1].second - batches[i + 1].first > kMany) continue;
    const bool alone = end - begin == 1 || OfOneCommunicator(batches[i]);
    for (auto first = begin; first != end; ++first)
      for (auto second = batches[i + 1].first; second != batches[i + 1].second; ++second)
        orders->plain.push_back(
            {first->instance, second->instance, node, first->call, second->call, Proves(*first, *second, alone)});
  }
}

}  // namespace

Orders FindOrders(const View& view, const WaitGraph& graph) {
  Orders orders;
  for (std::size_t n = 0; n < view.nodes.size(); ++n) {
    if (view.process(view.nodes[n]).outcome.gone()) continue;
    for (const auto& [stream, launches] : Streams(view, graph, view.nodes[n]))
      AddOrders(static_cast<int>(n), launches, &orders);
  }
  return orders;
}

std::vector<Order> OrdersOverStreams(const View& view, const WaitGraph& graph) {
  Orders orders;
  for (std::size_t n = 0; n < view.nodes.size(); ++n) {
    if (view.process(view.nodes[n]).outcome.gone()) continue;
    const auto streams = Streams(view, graph, view.nodes[n]);
    if (streams.size() < 2) continue;
    Stream all;
    for (const auto& [stream, launches] : streams) all.insert(all.end(), launches.begin(), launches.end());
    SortByTime(&all);
    AddOrders(static_cast<int>(n), all, &orders);
  }
  for (Order& order : orders.plain) order.proven = false;
  return std::move(orders.plain);
}

// Depth first, without recursion: the input may be hostile.
std::vector<const Order*> Cycle(const std::vector<Order>& orders) {
  std::map<Instance, std::vector<const Order*>> after;
  for (const Order& order : orders) after[order.first].push_back(&order);
  std::map<Instance, int> state;  // 1 on the path, 2 done
  for (const Order& start : orders) {
    if (state[start.first] != 0) continue;
    std::vector<const Order*> path;
    std::vector<std::pair<Instance, std::size_t>> stack = {{start.first, 0}};
    state[start.first] = 1;
    while (!stack.empty()) {
      auto& [instance, next] = stack.back();
      const std::vector<const Order*>& edges = after[instance];
      if (next == edges.size()) {
        state[instance] = 2;
        stack.pop_back();
        if (!path.empty()) path.pop_back();
        continue;
      }
      const Order* edge = edges[next++];
      if (state[edge->second] == 1) {
        path.push_back(edge);
        const auto begin =
            std::find_if(path.begin(), path.end(), [&](const Order* order) { return order->first == edge->second; });
        return {begin, path.end()};
      }
      if (state[edge->second] == 2) continue;
      state[edge->second] = 1;
      path.push_back(edge);
      stack.push_back({edge->second, 0});
    }
  }
  return {};
}

std::vector<const Order*> WayBack(const std::vector<Order>& plain, const Order& order) {
  std::map<Instance, std::vector<const Order*>> after;
  for (const Order& edge : plain) after[edge.first].push_back(&edge);
  std::map<Instance, const Order*> came;
  std::vector<Instance> next = {order.second};
  while (!next.empty() && !came.contains(order.first)) {
    const Instance at = next.back();
    next.pop_back();
    const auto edges = after.find(at);
    if (edges == after.end()) continue;
    for (const Order* edge : edges->second)
      if (edge->second != order.second && came.try_emplace(edge->second, edge).second) next.push_back(edge->second);
  }
  std::vector<const Order*> way;
  for (Instance at = order.first; at != order.second; at = way.back()->first) {
    const auto edge = came.find(at);
    if (edge == came.end()) return {};
    way.push_back(edge->second);
  }
  std::reverse(way.begin(), way.end());
  return way;
}

}  // namespace ncclwatch::diagnosis
