#include "tests/unit/nodes/network.h"

#include <gtest/gtest.h>

#include "core/diagnose.h"
#include "core/view/from_boxes.h"

namespace ncclwatch::testing {

using nodes::Kind;

Network::Network(std::vector<SpreadNode> spread) : first_(spread.front().name), hub_(this, spread.front().name) {
  for (SpreadNode& node : spread) {
    const std::string name = node.name;
    const std::int64_t ahead_ns = node.ahead_ns;
    nodes_[name].now = std::move(node);
    hub_.Join(name, 0);
    hub_.table().SetShift(name, -ahead_ns);
    if (name == first_) nodes_[name].reporter.Begin(++nodes_[name].session);
  }
}

void Network::Tick(std::vector<SpreadNode> spread, std::int64_t now_ns) {
  for (SpreadNode& node : spread) {
    const std::string name = node.name;
    nodes_[name].now = std::move(node);
  }
  for (auto& [name, node] : nodes_) {
    if (node.session == 0) continue;
    nodes::NodeNow now = NowOf(node.now, now_ns);
    now.revision = node.revision;
    for (const std::string& body : node.reporter.Look(now)) {
      summary_bytes[name] += body.size();
      if (!loses(name, Kind::kSummary)) hub_.TakeSummary(name, body, now_ns);
    }
  }
  hub_.table().Poll(now_ns);
}

void Network::Stand(double seconds, std::int64_t* now_ns) {
  constexpr std::int64_t kStep = 100'000'000;
  for (const std::int64_t until = *now_ns + static_cast<std::int64_t>(seconds * 1e9); *now_ns < until;) {
    *now_ns += kStep;
    std::vector<SpreadNode> spread;
    for (auto& [name, node] : nodes_) {
      spread.push_back(node.now);
      for (reader::BoxImage& box : spread.back().boxes) {
        bool gone = false;
        for (const auto& other : node.now.boxes)
          for (const auto& seen : other.observations) gone |= reader::IsAbout(seen, box);
        if (!gone) box.heartbeat_ns = *now_ns + node.now.ahead_ns;
      }
    }
    Tick(std::move(spread), *now_ns);
  }
}

bool Network::Send(const std::string& name, Kind kind, std::string body) {
  Node& node = nodes_.at(name);
  if (loses(name, kind)) return true;
  if (kind == Kind::kWord) {
    bool damaged = false;
    const std::optional<std::string> whole = node.pieces.Add(body, &damaged);
    if (!whole) return true;
    words[name] = nodes::ReadWord(*whole).value();
    node.revision = words[name].revision;
    return true;
  }
  const nodes::Fetch fetch = nodes::ReadFetch(body).value();
  if (fetch.number == 0) {
    node.reporter.Begin(++node.session);
    return true;
  }
  ++fetches;
  for (const std::string& piece : nodes::Answer(fetch, node.now.boxes))
    if (!loses(name, Kind::kRecords)) hub_.TakeRecords(name, piece);
  return true;
}

diagnosis::Snapshot Network::SnapshotOf(std::int64_t now_ns, const diagnosis::Limits& limits) const {
  diagnosis::Snapshot snapshot;
  snapshot.now_ns = now_ns;
  snapshot.limits = limits;
  snapshot.boxes = nodes_.at(first_).now.boxes;
  snapshot.boot_id = snapshot.boxes.front().boot_id;
  const std::int64_t job_clock = snapshot.boxes.front().realtime_minus_monotonic_ns;
  for (reader::BoxImage& box : snapshot.boxes) box.leader_state.job_minus_monotonic_ns = job_clock;
  for (reader::BoxImage& box : hub_.Boxes(snapshot.boxes, job_clock, now_ns)) snapshot.boxes.push_back(std::move(box));
  diagnosis::GatherObservations(&snapshot);
  return snapshot;
}

diagnosis::Diagnosis Network::DiagnoseSummaries(std::int64_t now_ns, const diagnosis::Limits& limits) const {
  return diagnosis::Diagnose(SnapshotOf(now_ns, limits));
}

diagnosis::Diagnosis Network::Diagnose(std::int64_t now_ns, const diagnosis::Limits& limits) {
  diagnosis::Diagnosis diagnosis = DiagnoseSummaries(now_ns, limits);
  for (int rounds = 0; rounds < 3; ++rounds) {
    const std::vector<std::string> whom = hub_.Whom(diagnosis);
    if (whom.empty()) break;
    hub_.Gather(whom, 0, now_ns);
    EXPECT_TRUE(hub_.Gathered(now_ns) || loses(whom.front(), Kind::kRecords));
    diagnosis = DiagnoseSummaries(now_ns, limits);
  }
  hub_.LetGo();
  return diagnosis;
}

}  // namespace ncclwatch::testing
