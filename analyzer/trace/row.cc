#include "analyzer/trace/row.h"

namespace ncclwatch::analyzer {

Row RowOf(const Facts& facts) {
  const reader::Call& call = facts.call;
  Row row;
  row.time = absl::FromUnixNanos(facts.time_ns);
  row.rank = facts.rank;
  row.host = facts.box.host;
  row.pid = facts.box.pid;
  row.slot = call.slot;
  row.thread = call.thread;
  if (const reader::Communicator* on = facts.communicator) {
    row.communicator = on->id;
    if ((on->flags & format::kCommRankUnknown) == 0) row.communicator_rank = on->rank;
    row.label = on->label;
  }
  row.op = OpText(call.function);
  row.position = facts.position;
  row.count = facts.count;
  row.bytes = facts.bytes;
  row.dtype = DtypeText(call.dtype);
  row.reduction = ReductionText(call.reduction);
  row.payload = facts.payload;
  row.root = facts.root;
  row.peer = facts.peer;
  row.stream = call.stream;
  row.group = facts.group;
  row.state = Name(facts.standing.state);
  row.pending = facts.standing.pending;
  if (facts.has_result) row.result = ResultText(call.result);
  row.duration = absl::Nanoseconds(facts.duration_ns);
  if (facts.returned_ns) row.returned = absl::FromUnixNanos(*facts.returned_ns);
  row.kernel = call.kernel;
  row.site = call.site;
  row.flags = FlagNames(call.flags);
  return row;
}

}  // namespace ncclwatch::analyzer
