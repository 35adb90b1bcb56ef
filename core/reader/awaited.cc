#include "core/reader/awaited.h"

#include <algorithm>
#include <cstdint>
#include <unordered_map>

namespace ncclwatch::reader {
namespace {

bool IsPoll(const Call& call) { return functions::IsMpi(call.function) && (call.flags & format::kPolls) != 0; }

// A row of tests that found nothing goes on until its thread does something else, after the last of them: a loop may
// have found something by another test in between.
void EndPolls(BoxImage* image) {
  std::unordered_map<std::uint32_t, std::int64_t> latest;  // by thread: when it last called anything else
  for (auto call = image->calls.rbegin(); call != image->calls.rend(); ++call) {
    std::int64_t& other_ns = latest.try_emplace(call->thread, INT64_MIN).first->second;
    if (!IsPoll(*call))
      other_ns = std::max(other_ns, call->entered_ns);
    else if (call->returned_ns == 0 && call->completed_ns <= other_ns)
      call->returned_ns = call->completed_ns;
  }
}

}  // namespace

void MarkAwaited(BoxImage* image) {
  bool any = false;
  for (const Call& call : image->calls) any = any || functions::IsMpi(call.function);
  if (!any) return;
  EndPolls(image);
  struct Wait {
    std::uint32_t flags = 0;
    std::uint64_t requests = 0;
  };
  std::unordered_map<std::uint64_t, Wait> waits;  // by slot + 1
  for (const Call& call : image->calls) {
    const functions::FunctionInfo* info = functions::Find(call.function);
    if (info && info->family == functions::Family::kCompletion && call.returned_ns == 0)
      waits[call.slot + 1] = {call.flags, call.count};
  }
  std::unordered_map<std::uint64_t, std::uint64_t> requests;  // that are known, by slot + 1
  for (Call& call : image->calls) {
    const auto wait = waits.find(call.waiter);
    call.awaited = (call.flags & format::kRequest) != 0 && call.completed_ns == 0 && wait != waits.end();
    if (!call.awaited) continue;
    call.polled = (wait->second.flags & format::kPolls) != 0;
    call.wait_any = (wait->second.flags & format::kAnyDoes) != 0;
    ++requests[call.waiter];
  }
  // Any of several, of which not all are known: its caller may go on at any time.
  for (Call& call : image->calls)
    if (call.awaited && call.wait_any && requests[call.waiter] < waits[call.waiter].requests) call.polled = true;
}

}  // namespace ncclwatch::reader
