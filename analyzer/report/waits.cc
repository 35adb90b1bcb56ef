#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <tuple>

#include "analyzer/report/sections.h"
#include "core/model/text.h"
#include "core/waits/waits.h"
#include "ncclwatch/functions/function.h"
#include "ncclwatch/nanoseconds.h"

namespace ncclwatch::analyzer {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostGroups = 64;  // a picture with more shows nothing

std::string_view Name(diagnosis::WaitFor what) {
  switch (what) {
    case diagnosis::WaitFor::kCollective: return "collective";
    case diagnosis::WaitFor::kMessage: return "message";
    case diagnosis::WaitFor::kJoin: return "join";
    case diagnosis::WaitFor::kEpoch: return "epoch";
    case diagnosis::WaitFor::kEnd: return "end";
  }
  return "";
}

// A wait as the picture shows it: whoever has the same ones is in the same group.
struct Edge {
  int comm = -1;
  std::uint64_t position = 0;
  diagnosis::WaitFor what{};
  std::string op;
  std::set<int> others;  // job ranks; -1: somebody unknown
  std::int64_t since_ns = 0;
  auto Key() const { return std::tuple(comm, position, what, op, others); }
};

std::vector<diagnosis::Explained> ExplainedBy(const diagnosis::View& view,
                                              const std::vector<diagnosis::Finding>& findings) {
  std::vector<diagnosis::Explained> explained;
  for (const diagnosis::Finding& finding : findings) {
    const bool mismatch =
        finding.kind == diagnosis::Kind::kOrderMismatch || finding.kind == diagnosis::Kind::kArgumentMismatch;
    if (!mismatch || !finding.communicator || !finding.position) continue;
    for (std::size_t i = 0; i < view.comms.size(); ++i)
      if (view.comms[i].id == finding.communicator->id) explained.push_back({static_cast<int>(i), *finding.position});
  }
  return explained;
}

std::vector<Edge> EdgesOf(const diagnosis::View& view, const diagnosis::WaitGraph& graph, std::size_t node) {
  std::map<std::tuple<int, std::uint64_t, diagnosis::WaitFor>, Edge> edges;
  for (const int index : graph.out[node]) {
    const diagnosis::Wait& wait = graph.waits[index];
    Edge& edge = edges[{wait.comm, wait.position, wait.what}];
    edge.comm = wait.comm;
    edge.position = wait.position;
    edge.what = wait.what;
    if (wait.call) edge.op = functions::OpName(wait.call->function);
    edge.others.insert(wait.other >= 0 ? view.nodes[wait.other].rank : wait.other_rank);
    if (wait.since_ns > 0 && (edge.since_ns == 0 || wait.since_ns < edge.since_ns)) edge.since_ns = wait.since_ns;
  }
  std::vector<Edge> list;
  for (auto& [key, edge] : edges) list.push_back(std::move(edge));
  return list;
}

Json ToJson(const diagnosis::View& view, const Edge& edge) {
  const bool known = edge.comm >= 0;
  return {{"communicator", known ? Json(diagnosis::Hex16(view.comms[edge.comm].id)) : Json(nullptr)},
          {"position", edge.position},
          {"what", Name(edge.what)},
          {"op", edge.op},
          {"for_s", edge.since_ns > 0 ? Json(InSeconds(view.now_ns - edge.since_ns)) : Json(nullptr)},
          {"others", edge.others}};
}

}  // namespace

Json WaitsSection(const diagnosis::View& view, const std::vector<diagnosis::Finding>& findings) {
  const diagnosis::WaitGraph graph = diagnosis::MakeWaits(view, ExplainedBy(view, findings));
  using Key = std::vector<decltype(Edge().Key())>;
  std::map<Key, std::pair<std::vector<int>, std::vector<Edge>>> groups;  // ranks and what they have in common
  for (std::size_t node = 0; node < view.nodes.size(); ++node) {
    std::vector<Edge> edges = EdgesOf(view, graph, node);
    if (edges.empty()) continue;
    Key key;
    for (const Edge& edge : edges) key.push_back(edge.Key());
    auto& [ranks, common] = groups[key];
    ranks.push_back(view.nodes[node].rank);
    if (common.empty()) common = std::move(edges);
  }
  Json list = Json::array();
  for (const auto& [key, group] : groups) {
    if (list.size() == kMostGroups) break;
    Json waits = Json::array();
    for (const Edge& edge : group.second) waits.push_back(ToJson(view, edge));
    list.push_back({{"ranks", group.first}, {"waits", std::move(waits)}});
  }
  return {{"groups", std::move(list)}, {"left_out", groups.size() - std::min(groups.size(), kMostGroups)}};
}

}  // namespace ncclwatch::analyzer
