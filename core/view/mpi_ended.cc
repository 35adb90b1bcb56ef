#include "core/view/mpi_ended.h"

#include <algorithm>

#include "core/calls/mpi_message.h"
#include "core/view/mpi_traits.h"

namespace ncclwatch::diagnosis {

using reader::Call;

bool HasCalledFinalize(const Process& process) {
  constexpr std::ptrdiff_t kLast = 16;
  const std::vector<Call>& calls = process.box->calls;
  const auto end = calls.rbegin() + std::min(kLast, std::ssize(calls));
  return std::any_of(calls.rbegin(), end,
                     [](const Call& call) { return call.function == functions::Function::MPI_Finalize; });
}

bool HasLeftFinalize(const reader::BoxImage& box) {
  return std::any_of(box.calls.rbegin(), box.calls.rend(), [](const Call& call) {
    return call.function == functions::Function::MPI_Finalize && call.returned_ns != 0;
  });
}

bool MayStillFree(const View& view, const Process& process) {
  if (process.outcome.ended()) return false;
  const std::vector<Call>& calls = process.box->calls;
  return std::any_of(calls.rbegin(), calls.rend(), [&](const Call& call) {
    return call.function == functions::Function::MPI_Finalize && call.returned_ns == 0 &&
           view.now_ns - process.At(call.entered_ns) < kFinalizing_ns;
  });
}

bool AllFinalized(const View& view) {
  return !view.processes.empty() && std::ssize(view.nodes) >= view.expected &&
         std::all_of(view.processes.begin(), view.processes.end(), HasCalledFinalize);
}

bool HasIncompleteHistory(const Process& process) {
  const reader::BoxImage& box = *process.box;
  return box.dump || box.from_summary || !box.watching || box.torn > 0 || box.communicators_lost > 0 ||
         box.peers_lost > 0 || !OneThread(process);
}

bool AllKnown(const Member& member) {
  if ((member.comm->flags & format::kCommLostReceives) != 0) return false;
  return std::none_of(member.messages.begin(), member.messages.end(), [](const Call* call) {
    return IsReceive(*call) && call->position == format::kNotMatched && (call->flags & format::kNoPartner) == 0 &&
           !NeverTookPlace(*call);
  });
}

}  // namespace ncclwatch::diagnosis
