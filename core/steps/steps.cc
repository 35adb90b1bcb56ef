#include "core/steps/steps.h"

#include <algorithm>
#include <unordered_map>

#include "core/reader/left_out.h"
#include "core/steps/step_count.h"
#include "ncclwatch/format/fingerprint.h"
#include "ncclwatch/functions/types.h"

namespace ncclwatch::diagnosis {
namespace {

using reader::Call;

constexpr std::uint64_t kFewBytes = 1024;  // a loss, a norm, the figures that are logged

std::unordered_map<std::uint64_t, std::uint64_t> IdsOf(const View& view, const Node& node) {
  std::unordered_map<std::uint64_t, std::uint64_t> ids;
  for (const auto& at : node.memberships) {
    const Member& member = view.member(at);
    ids[KeyOf(member.comm->index, member.comm->generation)] = member.comm->id;
  }
  return ids;
}

std::optional<StepCount> Count(const View& view, const Node& node, const History& history) {
  std::optional<StepCount> count = CountSteps(SymbolsOf(view, node, history.calls), history.whole);
  if (count) return count;
  count = CountSteps(SymbolsOf(view, node, history.calls, /*counts=*/false), history.whole);
  // One function called over and over with whatever sizes: its calls need not be steps.
  return count && count->calls > 1 ? count : std::nullopt;
}

bool IsIt(const Call& call, const CallSummary& summary, const Member& member) {
  if (call.communicator != member.comm->index || call.generation != member.comm->generation) return false;
  if (call.position != summary.position || functions::OpName(call.function) != *summary.op) return false;
  return IsMessage(call) ? summary.peer && summary.peer->communicator_rank == call.root : !summary.peer;
}

// The step that the program had begun by then, as it said.
std::optional<std::int64_t> ProgramStep(const reader::BoxImage& box, std::int64_t at_ns) {
  for (auto note = box.notes.rbegin(); note != box.notes.rend(); ++note) {
    if (note->at_ns > at_ns || note->kind == format::NoteKind::kMetric) continue;
    if (note->kind != format::NoteKind::kStepBegin || note->step < 0) break;
    return note->step;
  }
  return std::nullopt;
}

// Of the rank's own calls; a call that it has not made is nowhere among them.
std::optional<Step> StepOf(const View& view, const CallSummary& summary, int rank) {
  const auto found = view.node_of_rank.find(rank);
  const CommView* comm = view.CommOf(summary.communicator);
  if (found == view.node_of_rank.end() || comm == nullptr || !summary.op) return std::nullopt;
  const Node& node = view.nodes[static_cast<std::size_t>(found->second)];
  const Member* member = nullptr;
  for (const auto& at : node.memberships) {
    if (&view.comms[static_cast<std::size_t>(at.first)] == comm) member = &view.member(at);
  }
  if (member == nullptr) return std::nullopt;
  History history = HistoryOf(view, node);
  const auto call = std::find_if(history.calls.begin(), history.calls.end(),
                                 [&](const Call* own) { return IsIt(*own, summary, *member); });
  if (call == history.calls.end()) return std::nullopt;
  const auto own = ProgramStep(*view.process(node).box, (*call)->entered_ns);
  history.calls.erase(call + 1, history.calls.end());
  const std::optional<StepCount> count = Count(view, node, history);
  if (!count && !own) return std::nullopt;
  Step step{rank};
  if (count) step = {rank, count->number, count->exact, count->call, count->calls};
  if (own) step.number = static_cast<std::uint64_t>(*own), step.exact = true;
  return step;
}

// A victim's call is as it should be; the largest group comes first.
std::optional<Step> StepOf(const View& view, const Finding& finding) {
  const auto is_victim = [&](int rank) {
    return !std::binary_search(finding.culprits.begin(), finding.culprits.end(), rank);
  };
  for (const bool victims : {true, false}) {
    for (const CallSummary& summary : finding.calls) {
      if (!summary.op || summary.communicator != finding.communicator->id || summary.position != *finding.position)
        continue;
      const auto rank = std::find_if(summary.ranks.begin(), summary.ranks.end(), is_victim);
      if (victims && rank == summary.ranks.end()) continue;
      return StepOf(view, summary, victims ? *rank : summary.ranks.front());
    }
  }
  return std::nullopt;
}

}  // namespace

History HistoryOf(const View& view, const Node& node) {
  const reader::BoxImage& box = *view.process(node).box;
  const std::unordered_map<std::uint64_t, std::uint64_t> ids = IdsOf(view, node);
  History history;
  history.whole = box.first_slot == 0 && box.torn == 0 && !box.from_summary;
  const auto add = [&](const std::vector<Call>& calls) {
    for (const Call& call : calls) {
      if (IsError(call) || (!IsMessage(call) && !functions::IsCollective(call.function))) continue;
      if (ids.contains(KeyOf(call.communicator, call.generation))) history.calls.push_back(&call);
    }
  };
  if (box.left_out == 0) {
    add(box.calls);
    return history;
  }
  const Process& process = view.process(node);
  if (process.restored_calls.empty()) history.read = reader::ReadLeftOut(box);
  const std::vector<Call>& left_out = process.restored_calls.empty() ? history.read : process.restored_calls;
  history.whole = history.whole && left_out.size() >= box.left_out;
  add(left_out);
  add(box.calls);
  std::sort(history.calls.begin(), history.calls.end(), [](const Call* a, const Call* b) { return a->slot < b->slot; });
  return history;
}

Symbol SymbolOf(const Call& call, std::uint64_t communicator, bool counts) {
  Symbol symbol;
  const std::uint64_t count = IsMessage(call) || !counts ? 0 : call.count;
  const std::uint64_t shape =
      format::Fingerprint(call.function, count, call.dtype, call.reduction, call.root, counts ? call.signature : 0);
  symbol.call = format::Mix(communicator, shape);
  symbol.communicator = communicator;
  symbol.message = IsMessage(call);
  symbol.heavy = IsMessage(call) || call.count * functions::DatatypeBytes(call.dtype) >= kFewBytes;
  symbol.at_ns = call.entered_ns;
  symbol.counter = IsMessage(call) ? symbol.call : communicator;
  symbol.position = call.position;
  return symbol;
}

std::vector<Symbol> SymbolsOf(const View& view, const Node& node, const std::vector<const Call*>& calls, bool counts) {
  const std::unordered_map<std::uint64_t, std::uint64_t> ids = IdsOf(view, node);
  std::vector<Symbol> symbols;
  symbols.reserve(calls.size());
  for (const Call* call : calls) {
    const std::uint64_t id = ids.at(KeyOf(call->communicator, call->generation));
    symbols.push_back(SymbolOf(*call, id, counts));
  }
  return symbols;
}

void AddSteps(const View& view, std::vector<Finding>* findings) {
  for (Finding& finding : *findings) {
    if (finding.position && finding.communicator) finding.step = StepOf(view, finding);
  }
}

}  // namespace ncclwatch::diagnosis
