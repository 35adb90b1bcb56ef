#include "core/view/from_boxes.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>

#include "core/view/as_of.h"
#include "core/view/clocks.h"
#include "core/view/process_end.h"
#include "core/view/witnessed.h"

namespace ncclwatch::diagnosis {
namespace {

using reader::BoxImage;

// A process that a visitor finds dead died, as far as anyone can tell, right after its last sign of life.
constexpr std::int64_t kOutlivedNs = 1'000'000'000;

std::int64_t LastSign(const BoxImage& box) {
  std::int64_t last = std::max(box.heartbeat_ns, box.left_out_until_ns);
  for (const reader::Call& call : box.calls) last = std::max({last, call.entered_ns, call.returned_ns});
  for (const reader::Observation& seen : box.observations) last = std::max(last, seen.at_ns);
  last = std::max(last, reader::LastSaid(box.words));
  if (box.last_words.written) last = std::max(last, box.last_words.at_ns);
  return last;
}

// Of each node the one that led last: it took over, or took back, what those before it had said.
std::vector<const BoxImage*> LastOfNodes(const std::vector<BoxImage>& boxes) {
  const auto key = [](const BoxImage& b) {
    return std::make_tuple(b.leader_state.generation, b.leader_state.verdict_at_ns, b.leader_state.waits,
                           b.heartbeat_ns);
  };
  std::map<std::string_view, const BoxImage*> of_node;
  for (const BoxImage& box : boxes) {
    if (box.leader_state.suspect_after_ns <= 0) continue;
    const BoxImage*& last = of_node[box.boot_id];
    if (last == nullptr || key(box) > key(*last)) last = &box;
  }
  std::vector<const BoxImage*> leaders;
  for (const auto& [node, last] : of_node) leaders.push_back(last);
  return leaders;
}

// Of several nodes: that of the last hub; where nodes were judged alone, the last that found something.
const BoxImage* LastLeader(const std::vector<BoxImage>& boxes) {
  const auto key = [](const BoxImage& b) {
    constexpr int kReignAndRole = 31;
    const std::int64_t at = b.leader_state.verdict_at_ns;
    return std::make_tuple(b.leader_state.generation >> kReignAndRole,
                           at == 0 ? INT64_MIN : at + b.realtime_minus_monotonic_ns);
  };
  const BoxImage* leader = nullptr;
  for (const BoxImage* last : LastOfNodes(boxes))
    if (leader == nullptr || key(*last) > key(*leader)) leader = last;
  return leader;
}

// All leaders' observations, on the clock of the snapshot, in order of time.
void Gather(const std::vector<BoxImage>& boxes, const Clocks& clocks, Snapshot* snapshot) {
  for (const BoxImage& box : boxes) {
    for (reader::Observation seen : box.observations) {
      seen.at_ns += clocks.ShiftOf(box);
      if (seen.at_ns <= snapshot->now_ns) snapshot->observations.push_back(seen);
    }
  }
}

// It saw the end itself, where the visitor comes upon what is left.
bool IsWitnessed(const reader::Witness& ends, const reader::Observation& seen) {
  return std::any_of(ends.begin(), ends.end(), [&](const reader::WitnessedEnd& end) {
    return end.seen.pid == seen.pid && end.seen.start_time == seen.start_time;
  });
}

void Order(std::vector<reader::Observation>* observations) {
  std::stable_sort(observations->begin(), observations->end(),
                   [](const reader::Observation& a, const reader::Observation& b) {
                     return std::make_tuple(a.at_ns, a.pid) < std::make_tuple(b.at_ns, b.pid);
                   });
}

}  // namespace

void GatherObservations(Snapshot* snapshot) {
  Gather(snapshot->boxes, Clocks(snapshot->boxes, snapshot->boot_id), snapshot);
  Order(&snapshot->observations);
}

Snapshot FromBoxes(std::vector<BoxImage> boxes, const std::vector<reader::Observation>& visitor,
                   const reader::Witness& witness) {
  Snapshot snapshot;
  const BoxImage* leader = LastLeader(boxes);
  const BoxImage* reference = leader != nullptr ? leader : boxes.empty() ? nullptr : &boxes.front();
  if (reference == nullptr) return snapshot;
  snapshot.boot_id = reference->boot_id;
  const Clocks clocks(boxes, snapshot.boot_id);
  if (leader != nullptr) {
    snapshot.limits.suspect_after_ns = leader->leader_state.suspect_after_ns;
    snapshot.limits.likely_after_ns =
        std::max(leader->leader_state.likely_after_ns, leader->leader_state.suspect_after_ns);
    snapshot.now_ns = leader->leader_state.verdict_at_ns;
  }
  const bool judged = snapshot.now_ns != 0;
  if (!judged) {
    for (const BoxImage& box : boxes) snapshot.now_ns = std::max(snapshot.now_ns, LastSign(box) + clocks.ShiftOf(box));
  }
  Gather(boxes, clocks, &snapshot);
  AddWitness(witness, boxes, clocks, judged, &snapshot);
  const bool one_failed = !judged && std::any_of(boxes.begin(), boxes.end(), SaysItFailed);
  for (reader::Observation seen : visitor) {
    if (IsWitnessed(snapshot.ends, seen)) continue;
    const BoxImage* box = BoxOf(boxes, seen);
    if (box != nullptr && box->from_summary) continue;  // its last sign is older than its end
    if (seen.at_ns > snapshot.now_ns && box != nullptr && seen.what == format::Observed::kGone) {
      seen.at_ns = LastSign(*box) + clocks.ShiftOf(*box);
      // It lived when the others did last. Unless it has said itself that it ends where no rank of MPI may, or a rank
      // has said that it failed: launchers then kill the others within milliseconds.
      if (seen.at_ns > snapshot.now_ns - kOutlivedNs && !SaysItEnds(*box) && !one_failed) continue;
    }
    if (seen.at_ns <= snapshot.now_ns) snapshot.observations.push_back(seen);
  }
  Order(&snapshot.observations);
  snapshot.boxes = std::move(boxes);
  RollBack(&snapshot);
  return snapshot;
}

}  // namespace ncclwatch::diagnosis
