// deadlock: ranks wait for one another in a cycle. Certain only where the order of launches on the streams proves it.
#include <algorithm>
#include <map>
#include <set>

#include "watchdog/diagnosis/explain.h"
#include "watchdog/diagnosis/text.h"

namespace ncclwatch::diagnosis {
namespace {

using functions::Function;
using reader::Call;

// One collective of one communicator, on all its ranks.
using Instance = std::pair<int, std::uint64_t>;

// On some node `first` lies before `second` on one stream and has not finished: `second` cannot begin anywhere.
struct Order {
  Instance first, second;
  int node = -1;
  const Call* first_call = nullptr;
  const Call* second_call = nullptr;
};

// No rank of it finishes before all have begun. (The root of a broadcast may.)
bool NeedsEverybody(Function function) {
  return function == Function::ncclAllReduce || function == Function::ncclAllGather ||
         function == Function::ncclReduceScatter || function == Function::ncclAlltoAll;
}

struct Launch {
  Instance instance;
  const Call* call = nullptr;
};

// Launches that the GPU has not finished, by stream. Streams 0 to 2 are the default ones: one for each device, and for
// each thread where the program was built so; the node stands for the device.
std::map<std::pair<std::uint64_t, std::uint32_t>, std::vector<Launch>> Streams(const View& view, const WaitGraph& graph,
                                                                               const Node& node) {
  std::map<std::pair<std::uint64_t, std::uint32_t>, std::vector<Launch>> streams;
  for (const auto& at : node.memberships) {
    const Member& member = view.member(at);
    if (!view.comms[at.first].comparable || !member.alive_in()) continue;
    for (auto call = member.calls.rbegin(); call != member.calls.rend(); ++call) {
      const bool marked = ((*call)->flags & format::kMarked) != 0;
      if (!marked || member.comm->Finished((*call)->ticket)) break;
      if (graph.Explains(at.first, (*call)->position)) continue;
      const std::uint32_t thread = (*call)->stream <= 2 ? (*call)->thread : 0;
      streams[{(*call)->stream, thread}].push_back({{at.first, (*call)->position}, *call});
    }
  }
  for (auto& [stream, launches] : streams) {
    std::sort(launches.begin(), launches.end(),
              [](const Launch& a, const Launch& b) { return a.call->slot < b.call->slot; });
  }
  return streams;
}

std::vector<Order> Orders(const View& view, const WaitGraph& graph) {
  std::vector<Order> orders;
  for (std::size_t n = 0; n < view.nodes.size(); ++n) {
    if (view.process(view.nodes[n]).fate.gone()) continue;
    for (const auto& [stream, launches] : Streams(view, graph, view.nodes[n])) {
      for (std::size_t i = 1; i < launches.size(); ++i) {
        const Launch& first = launches[i - 1];
        const Launch& second = launches[i];
        // The calls of one group are launched together, in an order of NCCL's own.
        if (first.call->group != 0 && first.call->group == second.call->group) continue;
        if (!NeedsEverybody(first.call->function) || !NeedsEverybody(second.call->function)) continue;
        orders.push_back({first.instance, second.instance, static_cast<int>(n), first.call, second.call});
      }
    }
  }
  return orders;
}

// The orders of one cycle; empty if there is none. Depth first, without recursion: the input may be hostile.
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

void Finish(const View& view, const WaitGraph& graph, const std::vector<int>& nodes, Finding* finding) {
  AddCulprits(view, RanksOf(view, nodes), finding);
  AddVictims(view, graph, nodes, finding);
  finding->next_steps.push_back(
      "make the collectives of the communicators named in one order on all ranks, or put them "
      "on different streams that do not wait for each other");
  finding->next_steps.push_back(
      "from NCCL 2.26 on NCCL_LAUNCH_ORDER_IMPLICIT=1 orders launches on several communicators "
      "as the host makes them");
}

std::string OrderText(const View& view, const Order& order) {
  return Ranks({view.nodes[order.node].rank}) + " launched " + CallText(*order.first_call) + " on communicator " +
         Hex16(view.comms[order.first.first].id) + " (collective " + std::to_string(order.first.second) + ") before " +
         CallText(*order.second_call) + " on communicator " + Hex16(view.comms[order.second.first].id) +
         " (collective " + std::to_string(order.second.second) + ")" +
         (view.process(view.nodes[order.node]).box->dump ? "" : " on stream " + Hex(order.first_call->stream));
}

std::optional<Finding> ByStreamOrder(const View& view, const WaitGraph& graph) {
  const std::vector<Order> orders = Orders(view, graph);
  const std::vector<const Order*> cycle = Cycle(orders);
  if (cycle.empty()) return std::nullopt;
  Finding finding;
  finding.kind = Kind::kDeadlock;
  finding.certainty = Certainty::kCertain;
  std::set<int> nodes;
  std::set<Instance> instances;
  std::int64_t began = 0;
  for (const Order* order : cycle) {
    instances.insert(order->first);
    finding.evidence.push_back(OrderText(view, *order));
    began = std::max(began, view.process(view.nodes[order->node]).At(order->second_call->entered_ns));
  }
  for (const Order& order : orders) {
    if (instances.contains(order.first) && instances.contains(order.second)) nodes.insert(order.node);
  }
  Finish(view, graph, {nodes.begin(), nodes.end()}, &finding);
  const Instance& first = cycle.front()->first;
  finding.communicator = DescribeComm(view.comms[first.first]);
  finding.position = first.second;
  for (const Instance& instance : instances) {
    for (CallSummary& call : DescribeCalls(view, view.comms[instance.first], instance.second)) {
      finding.calls.push_back(std::move(call));
    }
  }
  finding.began_at_ns = ToRealtime(view, began);
  finding.summary = "Deadlock: " + Ranks(finding.culprits) + " launched " + Plural(instances.size(), "collective") +
                    " in opposite order";
  if (SourceText(view) == "dump") {
    // Every call of a rank is taken for one stream: a dump names none.
    finding.certainty = Certainty::kSuspected;
    if (!ByTime(view, view.now_ns - began)) return std::nullopt;
    finding.summary += ": where these share a stream, or cannot run side by side, each waits for the other for ever.";
  } else {
    finding.summary += " on one stream each, so that each waits for the other for ever.";
  }
  finding.evidence.push_back("none of these launches has been finished by its GPU");
  return finding;
}

// Walks from a cyclic node along waits until a node comes again.
std::vector<const Wait*> WaitCycle(const WaitGraph& graph, const std::vector<int>& cyclic) {
  const std::set<int> inside(cyclic.begin(), cyclic.end());
  std::vector<const Wait*> path;
  std::map<int, std::size_t> seen;
  int node = cyclic.front();
  while (!seen.contains(node)) {
    seen[node] = path.size();
    const Wait* next = nullptr;
    for (const int index : graph.out[node]) {
      if (next == nullptr && inside.contains(graph.waits[index].other)) next = &graph.waits[index];
    }
    if (next == nullptr) return {};
    path.push_back(next);
    node = next->other;
  }
  return {path.begin() + static_cast<std::ptrdiff_t>(seen[node]), path.end()};
}

// The hosts may yet make the missing calls on other streams: a matter of time, never certain.
std::optional<Finding> ByWaits(const View& view, const WaitGraph& graph) {
  const std::vector<int> cyclic = graph.Cyclic();
  if (cyclic.empty()) return std::nullopt;
  const std::vector<const Wait*> cycle = WaitCycle(graph, cyclic);
  if (cycle.empty()) return std::nullopt;
  std::vector<int> nodes;
  std::int64_t latest = 0;
  bool proven = true;
  for (const Wait* wait : cycle) {
    nodes.push_back(wait->waiter);
    latest = std::max({latest, wait->since_ns, view.nodes[wait->waiter].active_ns});
    proven = proven && wait->proven;
  }
  const std::optional<Certainty> certainty = ByTime(view, view.now_ns - latest);
  if (!certainty) return std::nullopt;
  Finding finding;
  finding.kind = Kind::kDeadlock;
  finding.certainty = proven ? *certainty : Certainty::kSuspected;
  Finish(view, graph, nodes, &finding);
  finding.communicator = DescribeComm(view.comms[cycle.front()->comm]);
  finding.position = cycle.front()->position;
  finding.began_at_ns = ToRealtime(view, latest);
  finding.summary = "Ranks " + RankSet(finding.culprits) + " wait for one another in a cycle, without progress for " +
                    Seconds(view.now_ns - latest) + ".";
  for (const Wait* wait : cycle) {
    const CommView& comm = view.comms[wait->comm];
    const std::string call = wait->call != nullptr ? CallText(*wait->call) : std::string("a call");
    finding.evidence.push_back(Ranks({view.nodes[wait->waiter].rank}) + " waits for " + Ranks({wait->other_rank}) +
                               " in " + call + ", position " + std::to_string(wait->position) + " on " +
                               CommText(comm));
    finding.calls.push_back(DescribeCall(view, comm, comm.members[wait->member], wait->position, wait->call));
  }
  return finding;
}

}  // namespace

std::vector<Finding> FindDeadlocks(const View& view, const WaitGraph& graph) {
  std::vector<Finding> findings;
  std::optional<Finding> found = ByStreamOrder(view, graph);
  if (!found) found = ByWaits(view, graph);
  if (found) findings.push_back(std::move(*found));
  return findings;
}

}  // namespace ncclwatch::diagnosis
