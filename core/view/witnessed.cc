#include "core/view/witnessed.h"

#include <algorithm>
#include <unordered_map>

#include "core/view/process_end.h"

namespace ncclwatch::diagnosis {
namespace {

using reader::Observation;
using reader::WitnessedEnd;

// When a leader saw the same end: the verdict was made with that instant, and is told with it.
std::optional<std::int64_t> SeenByLeader(const Snapshot& snapshot, const Observation& seen) {
  for (const Observation& other : snapshot.observations)
    if (other.what == format::Observed::kGone && other.pid == seen.pid && other.start_time == seen.start_time)
      return other.at_ns;
  return std::nullopt;
}

}  // namespace

const reader::BoxImage* BoxOf(const std::vector<reader::BoxImage>& boxes, const Observation& seen) {
  const auto found = std::find_if(boxes.begin(), boxes.end(), [&](const auto& box) { return IsAbout(seen, box); });
  return found == boxes.end() ? nullptr : &*found;
}

void AddWitness(const reader::Witness& witness, const std::vector<reader::BoxImage>& boxes, const Clocks& clocks,
                bool judged, Snapshot* snapshot) {
  for (WitnessedEnd end : witness) {
    const reader::BoxImage* box = BoxOf(boxes, end.seen);
    if (box == nullptr || !SpeaksMpi(*box)) continue;
    end.seen.at_ns += clocks.ShiftOf(*box);
    if (const auto leader_ns = SeenByLeader(*snapshot, end.seen)) end.seen.at_ns = *leader_ns;
    if (!judged) snapshot->now_ns = std::max(snapshot->now_ns, end.seen.at_ns);
    if (end.seen.at_ns <= snapshot->now_ns) snapshot->ends.push_back(end);
  }
  for (const WitnessedEnd& end : snapshot->ends) snapshot->observations.push_back(end.seen);
}

void OrderEnds(const reader::Witness& ends, std::vector<Process>* processes) {
  if (ends.empty()) return;
  std::unordered_map<std::uint32_t, std::vector<Process*>> of_pid;
  for (Process& process : *processes) of_pid[process.box->pid].push_back(&process);
  std::vector<ProcessOutcome*> ordered;
  for (const WitnessedEnd& end : ends) {
    if (!end.ordered) continue;
    for (Process* process : of_pid[end.seen.pid]) {
      ProcessOutcome& outcome = process->outcome;
      if (!IsAbout(end.seen, *process->box) || !outcome.ended() || outcome.order != 0) continue;
      ordered.push_back(&outcome);
      outcome.order = ordered.size();
      outcome.others_lived = end.others_lived;
    }
  }
  for (std::size_t i = ordered.size(); i-- > 1;)
    ordered[i - 1]->observed_ns = std::min(ordered[i - 1]->observed_ns, ordered[i]->observed_ns);
}

}  // namespace ncclwatch::diagnosis
