#include "watchdog/nodes/summary_image.h"

#include <algorithm>

namespace ncclwatch::nodes {
namespace {

// Tickets are not told: one is made up that has finished or has not.
void AddProgress(const MemberRow& row, reader::Communicator* comm) {
  constexpr std::uint64_t kOne = 1;
  comm->tickets = kOne;
  comm->marks[0] = row.now.outstanding ? 0 : kOne;
  if (row.last && (row.last->flags & format::kMarked) != 0) {
    comm->tickets = row.last->ticket + 1;
    comm->marks = {};
    if (!row.now.outstanding) comm->marks[row.last->ticket % format::kMarks] = row.last->ticket + 1;
  }
}

reader::Communicator CommunicatorOf(const MemberRow& row) {
  const MemberNow& now = row.now;
  reader::Communicator comm;
  comm.index = now.index;
  comm.generation = now.generation;
  comm.id = now.id;
  comm.parent = now.parent;
  comm.parent_ordinal = now.parent_ordinal;
  comm.rank = now.rank;
  comm.size = now.size;
  comm.color = now.color;
  comm.flags = now.flags;
  comm.state = now.state;
  comm.label = now.label;
  comm.gpu = now.gpu;
  comm.created_ns = now.created_ns;
  comm.entered = now.entered;
  comm.returned = now.returned;
  comm.chain = now.chain;
  comm.creations = now.creations;
  comm.sends = now.sends;
  comm.receives = now.receives;
  comm.empties = now.empties;
  comm.last.entered_ns = row.last ? row.last->entered_ns : now.entered > 0 ? row.since_ns : 0;
  comm.last.flags = format::kMarked;
  AddProgress(row, &comm);
  return comm;
}

}  // namespace

reader::BoxImage ThinImage(const Table::Node& node, const ProcessRow& row, std::int64_t now_ns) {
  const ProcessNow& now = row.now;
  reader::BoxImage image;
  image.from_summary = true;
  image.boot_id = now.boot_id;
  image.host = now.host;
  image.node = now.node;
  image.job = now.job;
  image.command = now.command;
  image.pid_namespace = now.pid_namespace;
  image.start_time = now.start_time;
  image.pid = now.pid;
  image.attempt = now.attempt;
  image.rank = now.rank;
  image.world_size = now.world_size;
  image.local_rank = now.local_rank;
  image.local_world_size = now.local_world_size;
  image.state = now.state;
  image.watching = now.watching;
  image.heartbeats = 1;
  image.heartbeat_ns = now.heartbeat_ns;
  // Heard of is alive: that a process gives no sign of life its own leader alone can say.
  const std::int64_t there_ns = (node.connected ? now_ns : node.left_ns) - node.shift_ns;
  if (!row.gone && there_ns > row.told_ns) image.heartbeat_ns += there_ns - row.told_ns;
  image.realtime_minus_monotonic_ns = now.realtime_minus_monotonic_ns;
  image.nccl_version = now.nccl_version;
  image.environment = now.environment;
  image.gpu_marks = now.gpu_marks;
  image.last_words = now.last_words;
  image.words = now.words;
  image.observations = now.observations;
  image.first_slot = 1;  // its history is not whole
  for (const auto& [index, member] : row.members) {
    if (member.now.state == format::CommunicatorState::kFree) continue;
    image.communicators.push_back(CommunicatorOf(member));
    if (!member.last) continue;
    reader::Call call = *member.last;
    call.communicator = member.now.index;
    call.generation = member.now.generation;
    call.flags &= ~std::uint32_t{format::kStartMarked};  // whether it has begun is not told
    image.calls.push_back(call);
  }
  std::sort(image.calls.begin(), image.calls.end(), [](const auto& a, const auto& b) { return a.slot < b.slot; });
  image.head = image.calls.empty() ? 1 : image.calls.back().slot + 1;
  return image;
}

}  // namespace ncclwatch::nodes
