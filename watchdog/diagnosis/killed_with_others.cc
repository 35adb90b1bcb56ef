#include "watchdog/diagnosis/killed_with_others.h"

#include <signal.h>

#include <algorithm>

#include "watchdog/diagnosis/mpi_ended.h"

namespace ncclwatch::diagnosis {
namespace {

// From the first end to that of the last one killed for it, on a busy machine too.
constexpr std::int64_t kSameEndNs = 500'000'000;

bool Killed(const Process& process) { return process.fate.ended() && process.fate.signal == SIGKILL; }

// Or in a way that nobody has seen.
bool MayBeKilled(const Process& process) {
  return Killed(process) || (process.fate.ended() && !process.fate.exit_known());
}

bool SaysWhen(const Process& process) { return LeftMpiOpen(*process.box) || AbortOf(*process.box) != nullptr; }

// Gone, in a way that makes its launcher end the others.
bool TakesOthersAlong(const Process& process) {
  return process.fate.ended() && SpeaksMpi(*process.box) && !HasLeftFinalize(*process.box);
}

bool Near(const Process& a, const Process& b) { return std::abs(EndedAt(a) - EndedAt(b)) <= kSameEndNs; }

bool BothOrdered(const Process& a, const Process& b) { return a.fate.order != 0 && b.fate.order != 0; }

bool KnownLater(const Process& later, const Process& than) {
  if (later.fate.last_sign_ns > than.fate.observed_ns) return true;
  return BothOrdered(later, than) && than.fate.order < later.fate.order;
}

bool Before(const Process& a, const Process& b) {
  if (SaysWhen(a) && EndedAt(a) <= EndedAt(b)) return true;
  // Who sent that signal has ended the job; what did not heed it was killed.
  if (a.fate.polite() && EndedAt(a) <= EndedAt(b) && !KnownLater(a, b)) return true;
  return BothOrdered(a, b) && a.fate.order < b.fate.order;
}

std::vector<const Process*> Beside(const View& view, const Process& process) {
  std::vector<const Process*> beside;
  for (const Process& other : view.processes)
    if (&other != &process && TakesOthersAlong(other) && Near(other, process)) beside.push_back(&other);
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

}  // namespace

bool SpeaksMpi(const reader::BoxImage& box) {
  return std::any_of(box.communicators.begin(), box.communicators.end(),
                     [](const auto& comm) { return (comm.flags & format::kCommMpi) != 0; });
}

const reader::Call* AbortOf(const reader::BoxImage& box) {
  const auto found = std::find_if(box.calls.begin(), box.calls.end(), [](const reader::Call& call) {
    return call.function == functions::Function::MPI_Abort;
  });
  return found == box.calls.end() ? nullptr : &*found;
}

void MarkFollowers(std::vector<Process>* processes) {
  if (std::none_of(processes->begin(), processes->end(), Killed)) return;
  std::vector<const Process*> enders;
  for (const Process& process : *processes)
    if (TakesOthersAlong(process)) enders.push_back(&process);
  for (Process& process : *processes) {
    // On its way out of the program it may be killed as well, for another that was faster.
    if (!Killed(process) || !SpeaksMpi(*process.box) || AbortOf(*process.box) != nullptr) continue;
    process.fate.followed = std::any_of(enders.begin(), enders.end(), [&](const Process* other) {
      return other != &process && Near(*other, process) && Before(*other, process);
    });
  }
}

namespace {

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
      process.fate.others_lived || std::all_of(beside.begin(), beside.end(), [&](const auto* other) {
        return other->fate.last_sign_ns > process.fate.observed_ns;
      });
  return all_later && one_by_one ? Certainty::kCertain : Certainty::kLikely;
}

std::vector<const Death*> Inseparable(const View& view, const std::vector<Death>& deaths, const Death& first) {
  std::vector<const Death*> all{&first};
  const Process& process = view.processes[first.process];
  if (!Killed(process) || !TakesOthersAlong(process) || SaysWhen(process)) return all;
  for (const Death& death : deaths) {
    const Process& other = view.processes[death.process];
    if (&death == &first || !MayBeKilled(other) || !TakesOthersAlong(other) || !Near(other, process)) continue;
    if (!KnownLater(other, process) && std::abs(other.fate.observed_ns - process.fate.observed_ns) <= kOrderableNs)
      all.push_back(&death);
  }
  return all;
}

}  // namespace ncclwatch::diagnosis
