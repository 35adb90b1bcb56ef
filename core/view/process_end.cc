#include "core/view/process_end.h"

#include <signal.h>

#include <algorithm>

#include "core/view/mpi_ended.h"

namespace ncclwatch::diagnosis {
namespace {

using format::CommunicatorState;

// From the first end to that of the last one killed for it, on a busy machine too.
constexpr std::int64_t kSameEndNs = 500'000'000;

bool BothOrdered(const Process& a, const Process& b) { return a.outcome.order != 0 && b.outcome.order != 0; }

bool Before(const Process& a, const Process& b) {
  if (SaysWhen(a) && EndedAt(a) <= EndedAt(b)) return true;
  // Who sent that signal has ended the job; what did not heed it was killed.
  if (a.outcome.polite() && EndedAt(a) <= EndedAt(b) && !KnownLater(a, b)) return true;
  return BothOrdered(a, b) && a.outcome.order < b.outcome.order;
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

bool IsBetweenInitAndFinalize(const reader::BoxImage& box) {
  if (box.from_summary) return false;  // the summary may be older than its MPI_Finalize
  const bool speaks = std::any_of(box.communicators.begin(), box.communicators.end(), [](const auto& comm) {
    return (comm.flags & format::kCommMpi) != 0 && comm.state != CommunicatorState::kFailed;
  });
  return speaks && std::none_of(box.calls.begin(), box.calls.end(), [](const reader::Call& call) {
           return call.function == functions::Function::MPI_Finalize || call.function == functions::Function::MPI_Abort;
         });
}

bool LeftMpiOpen(const reader::BoxImage& box) {
  return box.state == format::ProcessState::kExiting && box.last_words.written && IsBetweenInitAndFinalize(box);
}

bool SaysItEnds(const reader::BoxImage& box) {
  const int signal = box.last_words.signal;
  const bool own = signal != SIGTERM && signal != SIGINT && signal != SIGHUP;  // else somebody asked it to
  const bool crashes = box.state == format::ProcessState::kCrashing && box.last_words.written && own;
  return LeftMpiOpen(box) || (crashes && IsBetweenInitAndFinalize(box));
}

bool SaysItFailed(const reader::BoxImage& box) {
  const reader::LastWords& words = box.last_words;
  const bool asked = words.signal == SIGTERM || words.signal == SIGINT || words.signal == SIGHUP ||
                     std::any_of(box.words.exceptions.begin(), box.words.exceptions.end(),
                                 [](const reader::Exception& one) { return one.type == "KeyboardInterrupt"; });
  if (!words.written || asked || box.from_summary || box.dump || SpeaksMpi(box)) return false;
  constexpr std::int32_t kEndedByUs = 86;
  if (box.state == format::ProcessState::kExiting) return words.exit_status != 0 && words.exit_status != kEndedByUs;
  return box.state == format::ProcessState::kCrashing;
}

bool SomebodyLives(const View& view) {
  return std::any_of(view.processes.begin(), view.processes.end(),
                     [](const Process& process) { return !process.outcome.ended(); });
}

bool SomebodyOutlived(const View& view, const Process& process, std::int64_t by_ns) {
  return std::any_of(view.processes.begin(), view.processes.end(), [&](const Process& other) {
    const std::int64_t alive_ns = other.outcome.ended() ? other.outcome.last_sign_ns : view.now_ns;
    return &other != &process && alive_ns > process.outcome.observed_ns + by_ns;
  });
}

// A process that says so itself begins to end when it says it: its core may take seconds to write.
std::int64_t EndedAt(const Process& process) {
  const reader::LastWords& words = process.box->last_words;
  std::int64_t ended_ns = process.outcome.observed_ns;
  if (words.written) ended_ns = std::min(ended_ns, process.At(words.at_ns));
  if (const reader::Call* abort = AbortOf(*process.box)) ended_ns = std::min(ended_ns, process.At(abort->entered_ns));
  return ended_ns;
}

bool Killed(const Process& process) { return process.outcome.ended() && process.outcome.signal == SIGKILL; }

bool SaysWhen(const Process& process) { return LeftMpiOpen(*process.box) || AbortOf(*process.box) != nullptr; }

bool TakesOthersAlong(const Process& process) {
  return process.outcome.ended() && SpeaksMpi(*process.box) && !HasLeftFinalize(*process.box);
}

bool EndedNear(const Process& a, const Process& b) { return std::abs(EndedAt(a) - EndedAt(b)) <= kSameEndNs; }

bool KnownLater(const Process& later, const Process& than) {
  if (later.outcome.last_sign_ns > than.outcome.observed_ns) return true;
  return BothOrdered(later, than) && than.outcome.order < later.outcome.order;
}

void MarkFollowers(std::vector<Process>* processes) {
  if (std::none_of(processes->begin(), processes->end(), Killed)) return;
  std::vector<const Process*> enders;
  for (const Process& process : *processes)
    if (TakesOthersAlong(process)) enders.push_back(&process);
  for (Process& process : *processes) {
    // On its way out of the program it may be killed as well, for another that was faster.
    if (!Killed(process) || !SpeaksMpi(*process.box) || AbortOf(*process.box) != nullptr) continue;
    process.outcome.followed = std::any_of(enders.begin(), enders.end(), [&](const Process* other) {
      return other != &process && EndedNear(*other, process) && Before(*other, process);
    });
  }
}

}  // namespace ncclwatch::diagnosis
