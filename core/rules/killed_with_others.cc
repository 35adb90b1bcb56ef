#include "core/rules/killed_with_others.h"

#include <signal.h>

#include <algorithm>

#include "core/view/mpi_ended.h"
#include "core/view/process_end.h"

namespace ncclwatch::diagnosis {
namespace {

// Or in a way that nobody has seen.
bool MayBeKilled(const Process& process) {
  return Killed(process) || (process.outcome.ended() && !process.outcome.exit_known());
}

std::vector<const Process*> Beside(const View& view, const Process& process) {
  std::vector<const Process*> beside;
  for (const Process& other : view.processes)
    if (&other != &process && TakesOthersAlong(other) && EndedNear(other, process)) beside.push_back(&other);
  return beside;
}

bool LearntOfAnError(const reader::BoxImage& box, const reader::Call& before) {
  return std::any_of(box.calls.begin(), box.calls.end(),
                     [&](const reader::Call& call) { return call.slot < before.slot && IsError(call); });
}

// A rank that another's end has made call MPI_Abort: its library told it.
bool AbortedForAnother(const Process& process, const std::vector<const Process*>& beside, const reader::Call& abort) {
  return LearntOfAnError(*process.box, abort) &&
         std::any_of(beside.begin(), beside.end(), [&](const Process* other) { return !KnownLater(*other, process); });
}

// Somebody, who may be alive yet, had begun to end the job before this one ended.
bool WasForetold(const View& view, const Process& process) {
  const std::int64_t end_ns = EndedAt(process);
  return std::any_of(view.processes.begin(), view.processes.end(), [&](const Process& other) {
    if (&other == &process || !SpeaksMpi(*other.box)) return false;
    if (const reader::Call* abort = AbortOf(*other.box); abort != nullptr && other.At(abort->entered_ns) <= end_ns)
      return true;
    return LeftMpiOpen(*other.box) && other.At(other.box->last_words.at_ns) <= end_ns;
  });
}

// A launcher takes milliseconds to kill them all: others may merely be about to be seen dead, too.
constexpr std::int64_t kKillingNs = 50'000'000;

}  // namespace

std::optional<Certainty> FirstOfTheKilled(const View& view, const Death& death) {
  const Process& process = view.processes[death.process];
  const bool killed = Killed(process) && SpeaksMpi(*process.box) && AbortOf(*process.box) == nullptr;
  if (killed && WasForetold(view, process)) return std::nullopt;
  const std::vector<const Process*> beside = Beside(view, process);
  if (killed && LeftMpiOpen(*process.box) && std::all_of(beside.begin(), beside.end(), [&](const Process* other) {
        return EndedAt(process) < EndedAt(*other);
      }))
    return Certainty::kCertain;  // it has said that it ends, before anybody else did
  if (beside.empty()) {
    if (!killed || view.processes.size() < 2 || SomebodyOutlived(view, process, kKillingNs)) return Certainty::kCertain;
    if (SomebodyLives(view)) return std::nullopt;
    return Certainty::kLikely;
  }
  if (const reader::Call* abort = AbortOf(*process.box))
    return AbortedForAnother(process, beside, *abort) ? Certainty::kLikely : Certainty::kCertain;
  if (!Killed(process) || !SpeaksMpi(*process.box)) return Certainty::kCertain;
  // Perhaps for want of somebody whom nobody sees: its launcher then kills all ranks of this node.
  if (static_cast<int>(view.nodes.size()) < view.expected) return std::nullopt;
  const bool all_later =
      std::all_of(beside.begin(), beside.end(), [&](const Process* other) { return KnownLater(*other, process); });
  // Whoever kills all ranks at once leaves the same order behind, unless somebody lived on unharmed.
  const bool one_by_one =
      process.outcome.others_lived || std::all_of(beside.begin(), beside.end(), [&](const auto* other) {
        return other->outcome.last_sign_ns > process.outcome.observed_ns;
      });
  return all_later && one_by_one ? Certainty::kCertain : Certainty::kLikely;
}

std::vector<const Death*> Inseparable(const View& view, const std::vector<Death>& deaths, const Death& first) {
  std::vector<const Death*> all{&first};
  const Process& process = view.processes[first.process];
  if (!Killed(process) || !TakesOthersAlong(process) || SaysWhen(process)) return all;
  for (const Death& death : deaths) {
    const Process& other = view.processes[death.process];
    if (&death == &first || !MayBeKilled(other) || !TakesOthersAlong(other) || !EndedNear(other, process)) continue;
    if (!KnownLater(other, process) &&
        std::abs(other.outcome.observed_ns - process.outcome.observed_ns) <= kOrderableNs)
      all.push_back(&death);
  }
  return all;
}

}  // namespace ncclwatch::diagnosis
