#include "tests/unit/nodes/spread.h"

#include <algorithm>

#include "core/live/live_compare.h"
#include "ncclwatch/format/lease.h"

namespace ncclwatch::testing {
namespace {

constexpr std::int64_t kBetweenLooks_ns = 110'000'000;
constexpr std::int64_t kAhead_ns = 123'456'789'012;  // of each node before the one before it

void Shift(std::int64_t by_ns, reader::BoxImage* box) {
  const auto move = [by_ns](std::int64_t* ns) {
    if (*ns != 0) *ns += by_ns;
  };
  move(&box->heartbeat_ns);
  move(&box->last_words.at_ns);
  box->realtime_minus_monotonic_ns -= by_ns;
  for (reader::Communicator& comm : box->communicators) {
    move(&comm.created_ns);
    move(&comm.last.entered_ns);
  }
  for (reader::Call& call : box->calls) {
    move(&call.entered_ns);
    move(&call.returned_ns);
  }
  for (reader::CallSite& site : box->call_sites) move(&site.named_ns);
}

const reader::BoxImage* BoxOf(const std::vector<reader::BoxImage>& boxes, const reader::Observation& seen) {
  for (const reader::BoxImage& box : boxes)
    if (reader::IsAbout(seen, box)) return &box;
  return nullptr;
}

}  // namespace

std::vector<SpreadNode> Spread(const Job& job, int per_node) {
  const diagnosis::Snapshot snapshot = job.Snapshot();
  int last = 0;
  for (const reader::BoxImage& box : snapshot.boxes) last = std::max(last, box.rank);
  std::vector<SpreadNode> nodes(static_cast<std::size_t>(last / per_node + 1));
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    nodes[n].name = "host" + std::to_string(n);
    nodes[n].ahead_ns = static_cast<std::int64_t>(n) * kAhead_ns;
  }
  for (reader::BoxImage box : snapshot.boxes) {
    SpreadNode& node = nodes[static_cast<std::size_t>(box.rank / per_node)];
    box.observations.clear();
    box.host = node.name;
    box.boot_id.replace(0, 4, std::to_string(1000 + box.rank / per_node));
    box.pid = static_cast<std::uint32_t>(100 + box.rank % per_node);
    box.start_time = 555;
    box.local_rank = box.rank % per_node;
    box.local_world_size = per_node;
    Shift(node.ahead_ns, &box);
    node.boxes.push_back(std::move(box));
  }
  for (reader::Observation seen : snapshot.observations) {
    SpreadNode& node = nodes[static_cast<std::size_t>(seen.rank / per_node)];
    const reader::BoxImage* about = BoxOf(snapshot.boxes, seen);
    if (about != nullptr) {
      const auto moved =
          std::find_if(node.boxes.begin(), node.boxes.end(), [&](const auto& box) { return box.rank == about->rank; });
      seen.pid = moved->pid;
      seen.start_time = moved->start_time;
    }
    seen.place = format::PidPlace(node.boxes.front().boot_id, node.boxes.front().pid_namespace);
    seen.at_ns += node.ahead_ns;
    node.boxes.front().observations.push_back(seen);
  }
  return nodes;
}

nodes::NodeNow NowOf(const SpreadNode& node, std::int64_t now_ns) {
  nodes::NodeNow now;
  now.now_ns = now_ns + node.ahead_ns;
  for (const reader::BoxImage& box : node.boxes) {
    nodes::ProcessNow process;
    process.pid = box.pid;
    process.start_time = box.start_time;
    process.pid_namespace = box.pid_namespace;
    process.rank = box.rank;
    process.world_size = box.world_size;
    process.local_rank = box.local_rank;
    process.local_world_size = box.local_world_size;
    process.attempt = box.attempt;
    process.boot_id = box.boot_id;
    process.host = box.host;
    process.job = box.job;
    process.command = box.command;
    process.nccl_version = box.nccl_version;
    process.environment = box.environment;
    process.gpu_marks = box.gpu_marks;
    process.realtime_minus_monotonic_ns = box.realtime_minus_monotonic_ns;
    process.state = box.state;
    process.watching = box.watching;
    process.heartbeat_ns = box.heartbeat_ns;
    process.last_words = box.last_words;
    process.words = box.words;
    for (const reader::Call& call : box.calls)
      if (functions::IsMpi(call.function) && call.returned_ns == 0 &&
          (process.inside_since_ns == 0 || call.entered_ns < process.inside_since_ns))
        process.inside_since_ns = call.entered_ns;
    process.words_said = (box.last_words.written ? 1 : 0) + static_cast<std::uint64_t>(reader::LastSaid(box.words));
    process.observations = box.observations;
    for (const reader::Communicator& comm : box.communicators) {
      nodes::MemberNow member;
      member.index = comm.index;
      member.generation = comm.generation;
      member.id = comm.id;
      member.parent = comm.parent;
      member.parent_ordinal = comm.parent_ordinal;
      member.rank = comm.rank;
      member.size = comm.size;
      member.flags = comm.flags;
      member.color = comm.color;
      member.created_ns = comm.created_ns;
      member.label = comm.label;
      member.state = comm.state;
      member.entered = comm.entered;
      member.returned = comm.returned;
      member.outstanding = comm.tickets > 0 && !comm.Finished(comm.tickets - 1);
      member.creations = comm.creations;
      member.empties = comm.empties;
      member.sends = comm.sends;
      member.receives = comm.receives;
      member.chain = comm.chain;
      member.last_entered_ns = comm.last.entered_ns;
      for (const reader::Call& call : box.calls) {
        if (call.communicator != comm.index || !functions::IsCollective(call.function)) continue;
        if ((call.flags & format::kEmpty) != 0) continue;
        const bool lately = call.entered_ns > now.now_ns - kBetweenLooks_ns;
        if (lately && (!member.pace || diagnosis::Rounder(call.position + 1, member.pace->position)))
          member.pace = nodes::Check{call.position + 1, call.chain};
        if (call.position + 1 == comm.entered) member.last = call;
      }
      process.members.push_back(std::move(member));
    }
    now.processes.push_back(std::move(process));
  }
  return now;
}

}  // namespace ncclwatch::testing
