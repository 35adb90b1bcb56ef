#include "core/calls/open_calls.h"

#include <algorithm>

namespace ncclwatch::diagnosis {
namespace {

using reader::Call;

constexpr std::size_t kMost = 256;  // threads inside MPI at a time
// A row of a loop that asks (MPI_Test) stays open: it counts while its thread has hardly called anything else.
constexpr std::uint64_t kAskedLately = 4;

}  // namespace

void OpenCalls::See(std::uint64_t slot, const Call& call) {
  if (functions::IsMpi(call.function) && call.returned_ns == 0 && slots_.size() < kMost) slots_.push_back(slot);
}

bool OpenCalls::Refresh(const reader::MappedBox& box) {
  const std::uint64_t head = box.head();
  bool over = false;
  std::int64_t oldest_ns = INT64_MAX;
  Call call;
  std::erase_if(slots_, [&](std::uint64_t slot) {
    if (!box.Read(slot, &call)) return true;
    over |= call.returned_ns != 0;
    const bool asked = (call.flags & format::kPolls) != 0 && head - slot > kAskedLately;
    if (call.returned_ns != 0 || asked) return true;
    oldest_ns = std::min(oldest_ns, call.entered_ns);
    return false;
  });
  since_ns_ = slots_.empty() ? 0 : oldest_ns;
  if (!slots_.empty() && head > 0 && box.Read(head - 1, &call)) since_ns_ = std::max(since_ns_, call.entered_ns);
  return over;
}

}  // namespace ncclwatch::diagnosis
