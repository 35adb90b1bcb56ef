// deadlock: ranks wait for one another in a cycle. Certain only where the order of launches on the streams proves it.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/model/text.h"
#include "core/rules/rules.h"
#include "core/view/mpi_traits.h"
#include "core/waits/launch_orders.h"

namespace ncclwatch::diagnosis {
namespace {

using functions::Function;
using reader::Call;

void Finish(const View& view, const WaitGraph& graph, const std::vector<int>& nodes, const std::set<int>& comms,
            Finding* finding) {
  AddCulprits(view, RanksOf(view, nodes), finding);
  AddVictims(view, graph, nodes, finding);
  if (comms.size() == 1) {
    finding->next_steps.emplace_back(
        "look for the rank that made a call more or less than in its steps before, or in another order: a branch on "
        "the "
        "rank, or an exception that it caught");
    return;
  }
  finding->next_steps.push_back(
      "make the calls named above in the same order on all ranks, or put them on different streams that do not wait "
      "for each other");
  finding->next_steps.push_back(
      "since NCCL 2.26, NCCL_LAUNCH_ORDER_IMPLICIT=1 orders launches on several communicators "
      "as the host makes them");
}

std::string LaunchText(const View& view, const Instance& instance, const Call& call) {
  const std::string_view unit = IsMessage(call) ? "message " : "collective ";
  return CallText(call) + " on communicator " + view.comms[instance.comm].name + " (" + std::string(unit) +
         std::to_string(instance.position) + ")";
}

std::string OrderText(const View& view, const Order& order) {
  const bool grouped = order.first_call->group != 0 && order.first_call->group == order.second_call->group;
  return Ranks({view.nodes[order.node].rank}) + " launched " + LaunchText(view, order.first, *order.first_call) +
         (grouped ? ", in one group with " : " before ") + LaunchText(view, order.second, *order.second_call) +
         (view.process(view.nodes[order.node]).box->dump ? "" : " on stream " + Hex(order.first_call->stream));
}

void AddCalls(const View& view, const Instance& instance, const std::vector<Order>& orders, Finding* finding) {
  const CommView& comm = view.comms[instance.comm];
  if (instance.from < 0) {
    for (CallSummary& call : DescribeCalls(view, comm, instance.position)) finding->calls.push_back(std::move(call));
    return;
  }
  std::set<const Call*> reported;
  for (const Order& order : orders) {
    for (const auto& [at, call] : {std::pair{order.first, order.first_call}, {order.second, order.second_call}}) {
      if (at != instance || !reported.insert(call).second) continue;
      const Member* member =
          comm.OfRank(static_cast<std::uint32_t>(call->function == Function::ncclSend ? at.from : at.to));
      if (member != nullptr) finding->calls.push_back(DescribeCall(view, comm, *member, at.position, call));
      if (member != nullptr) finding->calls.back().state = CallState::kReturned;
    }
  }
}

std::string WhyTheyWait(const View& view, const std::vector<const Order*>& cycle) {
  if (SourceText(view) != "black box")
    return ": if these share a stream, or cannot run side by side, each waits for the other forever.";
  const bool one_stream = std::all_of(cycle.begin(), cycle.end(), [](const Order* order) {
    return order->first_call->stream == order->second_call->stream;
  });
  if (one_stream) return " on one stream each, so that each waits for the other forever.";
  return ": if their streams wait for one another, each waits for the other forever.";
}

Finding ExplainCycle(const View& view, const WaitGraph& graph, const std::vector<Order>& orders,
                     const std::vector<const Order*>& cycle, Certainty certainty) {
  Finding finding;
  finding.kind = Kind::kDeadlock;
  finding.certainty = certainty;
  std::set<int> nodes;
  std::set<Instance> instances;
  std::int64_t began = 0;
  for (const Order* order : cycle) {
    nodes.insert(order->node);
    instances.insert(order->first);
    finding.evidence.push_back(OrderText(view, *order));
    began = std::max(began, view.process(view.nodes[order->node]).At(order->second_call->entered_ns));
  }
  for (const Order& order : orders) {
    if (instances.contains(order.first) && instances.contains(order.second)) nodes.insert(order.node);
  }
  std::set<int> comms;
  for (const Instance& instance : instances) comms.insert(instance.comm);
  Finish(view, graph, {nodes.begin(), nodes.end()}, comms, &finding);
  const Instance& first = cycle.front()->first;
  finding.communicator = DescribeComm(view.comms[first.comm]);
  finding.position = first.position;
  for (const Instance& instance : instances) AddCalls(view, instance, orders, &finding);
  finding.began_at_ns = ToRealtime(view, began);
  const bool messages =
      std::any_of(instances.begin(), instances.end(), [](const Instance& at) { return at.from >= 0; });
  finding.summary = "Deadlock: " + Ranks(finding.culprits) + " launched " +
                    Plural(instances.size(), messages ? "call" : "collective") + " in opposite order" +
                    WhyTheyWait(view, cycle);
  finding.evidence.push_back("the GPUs have finished none of these launches");
  return finding;
}

std::optional<Certainty> CertaintyByTime(const View& view, const std::vector<const Order*>& cycle) {
  std::int64_t latest = 0;
  for (const Order* order : cycle) latest = std::max(latest, view.nodes[order->node].active_ns);
  return ByTime(view, view.now_ns - latest);
}

std::optional<Finding> ByStreamOrder(const View& view, const WaitGraph& graph, const Orders& orders) {
  std::vector<Order> proven;
  for (const Order& order : orders.plain)
    if (order.proven) proven.push_back(order);
  const std::vector<const Order*> cycle = Cycle(proven);
  if (cycle.empty()) return std::nullopt;
  if (SourceText(view) == "black box") return ExplainCycle(view, graph, proven, cycle, Certainty::kCertain);
  // Every call of a rank is taken for one stream: a dump names none.
  if (!CertaintyByTime(view, cycle)) return std::nullopt;
  return ExplainCycle(view, graph, proven, cycle, Certainty::kSuspected);
}

// Sends may have been taken in by buffers, and groups launched in either order: time must tell.
std::optional<Finding> ByLikelyOrder(const View& view, const WaitGraph& graph, const Orders& orders) {
  std::vector<const Order*> cycle = Cycle(orders.plain);
  if (cycle.empty()) {
    for (const Order& order : orders.in_groups) {
      cycle = WayBack(orders.plain, order);
      if (cycle.empty()) continue;
      cycle.push_back(&order);
      break;
    }
  }
  if (cycle.empty()) return std::nullopt;
  const std::optional<Certainty> certainty = CertaintyByTime(view, cycle);
  if (!certainty) return std::nullopt;
  return ExplainCycle(view, graph, orders.plain, cycle, *certainty);
}

// Streams may wait for one another by events that nobody sees, or not at all.
std::optional<Finding> ByOrderOverStreams(const View& view, const WaitGraph& graph, const Orders& orders) {
  std::vector<Order> all = OrdersOverStreams(view, graph);
  if (all.empty()) return std::nullopt;
  all.insert(all.end(), orders.plain.begin(), orders.plain.end());
  const std::vector<const Order*> cycle = Cycle(all);
  if (cycle.empty() || !CertaintyByTime(view, cycle)) return std::nullopt;
  Finding finding = ExplainCycle(view, graph, all, cycle, Certainty::kSuspected);
  finding.evidence.emplace_back(
      "some of them are on different streams: it is not recorded whether the later one waits for the earlier by an "
      "event");
  return finding;
}

bool OfActiveCalls(const View& view) {
  return std::any_of(view.processes.begin(), view.processes.end(),
                     [](const Process& process) { return process.box->active_only; });
}

// The hosts may yet make the missing calls on other streams: a matter of time, never certain.
std::optional<Finding> ByWaits(const View& view, const WaitGraph& graph) {
  const std::vector<int> cyclic = graph.Cyclic();
  if (cyclic.empty()) return std::nullopt;
  const std::vector<const Wait*> cycle = graph.CycleAmong(cyclic);
  if (cycle.empty()) return std::nullopt;
  std::vector<int> nodes;
  std::int64_t latest = 0;
  bool proven = true;
  std::set<int> comms;
  for (const Wait* wait : cycle) {
    comms.insert(wait->comm);
    nodes.push_back(wait->waiter);
    latest = std::max({latest, wait->since_ns, view.nodes[wait->waiter].active_ns});
    proven = proven && wait->proven;
  }
  const std::optional<Certainty> certainty = ByTime(view, view.now_ns - latest);
  if (!certainty) return std::nullopt;
  Finding finding;
  finding.kind = Kind::kDeadlock;
  finding.certainty = proven ? *certainty : Certainty::kSuspected;
  Finish(view, graph, nodes, comms, &finding);
  finding.communicator = DescribeComm(view.comms[cycle.front()->comm]);
  finding.position = cycle.front()->position;
  finding.began_at_ns = ToRealtime(view, latest);
  finding.summary = fmt::format("Ranks {} wait for one another in a cycle and have made no progress for {}.",
                                RankSet(finding.culprits), Seconds(view.now_ns - latest));
  for (const Wait* wait : cycle) {
    const CommView& comm = view.comms[wait->comm];
    const std::string call = wait->call != nullptr ? CallText(*wait->call) : std::string("a call");
    finding.evidence.push_back(fmt::format("{} waits for {} in {}, position {} on {}",
                                           Ranks({view.nodes[wait->waiter].rank}), Ranks({wait->other_rank}), call,
                                           wait->position, CommText(comm)));
    finding.calls.push_back(DescribeCall(view, comm, comm.members[wait->member], wait->position, wait->call));
  }
  return finding;
}

}  // namespace

std::vector<Finding> FindDeadlocks(const Facts& facts) {
  const View& view = facts.view;
  const WaitGraph& graph = facts.graph;
  // Without streams, and without the calls that are over, the order of launches proves nothing.
  if (OfActiveCalls(view)) {
    std::optional<Finding> cycle = ByWaits(view, graph);
    return cycle ? std::vector<Finding>{std::move(*cycle)} : std::vector<Finding>();
  }
  const Orders orders = FindOrders(view, graph);
  std::optional<Finding> found = ByStreamOrder(view, graph, orders);
  if (!found) found = ByWaits(view, graph);
  // Not while somebody is missed: what hangs behind that may look like a cycle for a while.
  if (!found && graph.waits.empty()) found = ByLikelyOrder(view, graph, orders);
  if (!found && graph.waits.empty()) found = ByOrderOverStreams(view, graph, orders);
  if (found) return {std::move(*found)};
  return {};
}

}  // namespace ncclwatch::diagnosis
