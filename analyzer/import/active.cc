#include "analyzer/import/active.h"

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <optional>

namespace ncclwatch::analyzer::import {
namespace {

using reader::Call;
using reader::Communicator;

// What all dumps tell of one group.
struct Progress {
  std::uint64_t oldest_active = UINT64_MAX;  // position that some rank is still in
  bool counts_messages = false;              // pg_status counts whatever came last, a message or a collective
};

struct Range {
  std::uint64_t first = UINT64_MAX, end = 0;  // positions of the rank's own active collectives
};

std::vector<Range> ActiveOf(const Dump& dump) {
  std::vector<Range> active(dump.box.communicators.size());
  for (const Call& call : dump.box.calls) {
    if (!functions::IsCollective(call.function)) continue;
    Range& range = active[call.communicator];
    range.first = std::min(range.first, call.position);
    range.end = std::max(range.end, call.position + 1);
  }
  return active;
}

absl::flat_hash_map<std::uint64_t, Progress> ProgressOf(const std::vector<Dump>& dumps) {
  absl::flat_hash_map<std::uint64_t, Progress> all;
  for (const Dump& dump : dumps) {
    const std::vector<Range> active = ActiveOf(dump);
    for (const Communicator& communicator : dump.box.communicators) {
      Progress& progress = all[communicator.id];
      progress.oldest_active = std::min(progress.oldest_active, active[communicator.index].first);
      const ProcessGroup& group = dump.groups[communicator.index];
      const bool behind = group.enqueued && *group.enqueued < active[communicator.index].end;
      progress.counts_messages |= behind || communicator.sends + communicator.receives > 0;
    }
  }
  return all;
}

// How many collectives the rank has called. One that has nothing under way, while others are still in a call, has not
// made that call: it would be under way here too.
std::uint64_t EnteredBy(const ProcessGroup& group, const Range& active, const Progress& progress) {
  if (group.enqueued && !progress.counts_messages) return std::max(*group.enqueued, active.end);
  if (active.end > 0) return active.end;
  return progress.oldest_active == UINT64_MAX ? 0 : progress.oldest_active;
}

}  // namespace

bool AreActiveOnly(const std::vector<Dump>& dumps) {
  bool missing = false;
  for (const Dump& dump : dumps) {
    if (dump.ended > 0) return false;
    missing |= dump.missing_records;
  }
  return missing;
}

void SetProgressOfActiveOnly(std::vector<Dump>* dumps) {
  const absl::flat_hash_map<std::uint64_t, Progress> progress = ProgressOf(*dumps);
  for (Dump& dump : *dumps) {
    dump.box.first_slot = std::max<std::uint64_t>(dump.box.first_slot, 1);
    dump.box.head = std::max(dump.box.head, dump.box.first_slot);
    const std::vector<Range> active = ActiveOf(dump);
    for (Communicator& communicator : dump.box.communicators) {
      const Range& own = active[communicator.index];
      communicator.entered = EnteredBy(dump.groups[communicator.index], own, progress.at(communicator.id));
      communicator.returned = communicator.entered;
      communicator.left_out.first = 0;
      communicator.left_out.end = communicator.entered;
      communicator.left_out.finished = std::min(own.first, communicator.entered);
    }
  }
}

}  // namespace ncclwatch::analyzer::import
