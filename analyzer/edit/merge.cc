#include "analyzer/edit/merge.h"

#include <tuple>

#include "ncclwatch/functions/pattern.h"
#include "ncclwatch/functions/types.h"

namespace ncclwatch::analyzer {
namespace {

using functions::Pattern;
using reader::Call;

// What each rank gives adds up, and so does what it gets.
bool CanBeMerged(const Call& call) {
  const Pattern pattern = functions::IsMpi(call.function) ? functions::PatternOfMpi(call.function)
                                                          : functions::PatternOfNccl(call.function);
  switch (pattern) {
    case Pattern::kAllReduce:
    case Pattern::kReduceScatter:
    case Pattern::kAllGather:
    case Pattern::kBroadcast:
    case Pattern::kReduce: break;
    default: return false;
  }
  return call.group == 0 && (call.flags & (format::kRequest | format::kHasParts | format::kEmpty)) == 0;
}

auto KindOf(const Call& call) {
  return std::tuple(call.function, call.communicator, call.generation, call.dtype, call.reduction, call.root,
                    call.stream, call.thread);
}

std::uint64_t MessageBytes(const Call& call) {
  return functions::IsMpi(call.function) ? call.bytes : call.count * functions::DatatypeBytes(call.dtype);
}

void MergeIn(std::size_t index, std::uint64_t below, reader::BoxImage* box, CallSet* gone) {
  Call* open = nullptr;  // the last of those that are to be one
  for (Call& call : box->calls) {
    const bool small = CanBeMerged(call) && MessageBytes(call) < below;
    if (open && small && KindOf(call) == KindOf(*open)) {
      call.count += open->count;
      call.bytes += open->bytes;
      gone->insert({index, open->slot});
    }
    open = small && MessageBytes(call) < below ? &call : nullptr;
  }
}

}  // namespace

std::uint64_t MergeBelow(std::uint64_t bytes, Job* job) {
  CallSet gone;
  for (std::size_t i = 0; i < job->boxes.size(); ++i) MergeIn(i, bytes, &job->boxes[i], &gone);
  *job = WithoutCalls(*job, gone);
  return gone.size();
}

}  // namespace ncclwatch::analyzer
