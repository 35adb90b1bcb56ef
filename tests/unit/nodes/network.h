// Leaders of several nodes and a hub among them, with a network between that hands everything over at once, or loses
// it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/model/finding.h"
#include "core/nodes/hub.h"
#include "core/nodes/reporter.h"
#include "tests/unit/nodes/spread.h"

namespace ncclwatch::testing {

class Network : public nodes::MessageSender {
 public:
  // The first node is the hub's.
  explicit Network(std::vector<SpreadNode> spread);

  // The nodes as they are now; their leaders look, and the hub.
  void Tick(std::vector<SpreadNode> spread, std::int64_t now_ns);
  // Ticks from now on, 0.1 s each, with boxes that do not change but for their heartbeats.
  void Stand(double seconds, std::int64_t* now_ns);

  // What a hub's leader does: asks whom it should, and judges with what it has got.
  diagnosis::Diagnosis Diagnose(std::int64_t now_ns, const diagnosis::Limits& limits);
  // With what the summaries tell alone.
  diagnosis::Diagnosis DiagnoseSummaries(std::int64_t now_ns, const diagnosis::Limits& limits) const;

  bool Send(const std::string& node, nodes::Kind kind, std::string body) override;

  nodes::Hub& hub() { return hub_; }
  std::function<bool(const std::string& node, nodes::Kind kind)> loses = [](const auto&, auto) { return false; };
  std::map<std::string, std::size_t> summary_bytes;      // by node
  std::map<std::string, nodes::VerdictBroadcast> words;  // that came to the nodes
  std::uint64_t fetches = 0;

 private:
  struct Node {
    SpreadNode now;
    nodes::Reporter reporter;
    std::uint32_t session = 0;
    std::uint64_t revision = 0;
    nodes::Pieces pieces;
  };
  diagnosis::Snapshot SnapshotOf(std::int64_t now_ns, const diagnosis::Limits& limits) const;

  std::map<std::string, Node> nodes_;
  std::string first_;
  nodes::Hub hub_;
};

}  // namespace ncclwatch::testing
