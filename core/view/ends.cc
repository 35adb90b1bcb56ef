#include "core/view/ends.h"

#include <algorithm>

#include "core/view/process_end.h"

namespace ncclwatch::diagnosis {
namespace {

using functions::Family;
using reader::Call;

// Something that one does who means to go on.
bool IsWork(const Call& call) {
  const functions::FunctionInfo* info = functions::Find(call.function);
  return info != nullptr && (info->family == Family::kPointToPoint || info->family == Family::kCreation ||
                             functions::IsCollective(call.function));
}

bool WorksAfter(const Process& process, std::int64_t at_ns) {
  return std::any_of(process.box->calls.begin(), process.box->calls.end(),
                     [&](const Call& call) { return process.At(call.entered_ns) > at_ns && IsWork(call); });
}

}  // namespace

std::int64_t LastWork(const Process& process) {
  std::int64_t last = 0;
  for (const reader::Communicator& comm : process.box->communicators)
    if (comm.entered > 0) last = std::max(last, process.At(comm.last.entered_ns));
  for (const Call& call : process.box->calls)
    if (IsWork(call)) last = std::max(last, process.At(call.entered_ns));
  return last;
}

std::optional<std::int64_t> FirstEnd(const View& view) {
  std::int64_t first = INT64_MAX;
  for (const Process& process : view.processes) {
    const bool gone = process.outcome.ended();
    if (gone) first = std::min(first, EndedAt(process));
    for (const reader::Communicator& comm : process.box->communicators) {
      if (comm.aborted_ns == 0) continue;
      const std::int64_t aborted_ns = process.At(comm.aborted_ns);
      if (WorksAfter(process, aborted_ns)) continue;
      if (!gone) return std::nullopt;
      first = std::min(first, aborted_ns);
    }
  }
  if (first == INT64_MAX) return std::nullopt;
  for (const Process& process : view.processes)
    if (!process.outcome.ended() && WorksAfter(process, first)) return std::nullopt;
  return first;
}

}  // namespace ncclwatch::diagnosis
