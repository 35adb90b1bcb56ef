#include "watchdog/watch/node/node_now.h"

#include <unordered_map>

#include "core/reader/load.h"

namespace ncclwatch::watch {
namespace {

using diagnosis::LiveCompare;
using reader::Load;

std::string LabelOf(const format::Communicator& entry) {
  std::string label;
  for (const char& letter : entry.label) {
    const char value = Load(letter);
    if (value == 0) break;
    label += value;
  }
  return label;
}

nodes::ProcessNow FactsOf(const reader::BoxImage& image) {
  nodes::ProcessNow process;
  process.pid = image.pid;
  process.start_time = image.start_time;
  process.pid_namespace = image.pid_namespace;
  process.rank = image.rank;
  process.world_size = image.world_size;
  process.local_rank = image.local_rank;
  process.local_world_size = image.local_world_size;
  process.attempt = image.attempt;
  process.boot_id = image.boot_id;
  process.host = image.host;
  process.node = image.node;
  process.job = image.job;
  process.command = image.command;
  process.nccl_version = image.nccl_version;
  process.environment = image.environment;
  process.gpu_marks = image.gpu_marks;
  process.realtime_minus_monotonic_ns = image.realtime_minus_monotonic_ns;
  process.state = image.state;
  process.last_words = image.last_words;
  process.words = image.words;
  process.observations = image.observations;
  return process;
}

// The call in which a member stands, from its record: the entry alone may be half way to the next call.
std::optional<reader::Call> LastOf(const reader::MappedBox& box, const format::Communicator& entry,
                                   const nodes::MemberNow& member) {
  reader::Call call;
  if (member.entered == 0 || !box.Read(Load(entry.last.slot), &call)) return std::nullopt;
  const bool the_one = call.communicator == member.index && call.generation == member.generation &&
                       call.position + 1 == member.entered && functions::IsCollective(call.function);
  return the_one ? std::optional(call) : std::nullopt;
}

nodes::MemberNow MemberOf(const reader::MappedBox& box, const LiveCompare::Stand& stand) {
  const format::Communicator& entry = box.communicator(stand.index);
  nodes::MemberNow member;
  member.index = stand.index;
  member.generation = Load(entry.generation);
  member.state = static_cast<format::CommunicatorState>(Load(entry.state));
  member.id = Load(entry.id);
  member.parent = Load(entry.parent);
  member.parent_ordinal = Load(entry.parent_ordinal);
  member.rank = Load(entry.rank);
  member.size = Load(entry.size);
  member.flags = Load(entry.flags);
  member.color = Load(entry.color);
  member.created_ns = box.ToNanoseconds(Load(entry.created));
  member.label = LabelOf(entry);
  member.gpu = box.StringAt(Load(entry.gpu));
  member.entered = stand.entered;
  member.returned = stand.returned;
  member.outstanding = stand.outstanding;
  member.creations = Load(entry.creations);
  member.empties = Load(entry.empties);
  member.sends = Load(entry.sends);
  member.receives = Load(entry.receives);
  member.chain = Load(entry.chain);
  if (member.entered > 0) member.last_entered_ns = box.ToNanoseconds(Load(entry.last.entered));
  if (stand.pace_position != 0) member.pace = nodes::Check{stand.pace_position, stand.pace_chain};
  if (stand.returned < stand.entered || stand.outstanding) member.last = LastOf(box, entry, member);
  return member;
}

bool Possible(const nodes::MemberNow& member) {
  const bool rank_known = (member.flags & format::kCommRankUnknown) == 0;
  return member.state > format::CommunicatorState::kFree && member.state <= format::CommunicatorState::kRevoked &&
         (!rank_known || member.rank < member.size);
}

}  // namespace

nodes::NodeNow NodeSummarizer::Look(std::int64_t now_ns, const NodeProcesses& group_wait, LiveCompare* compare) {
  nodes::NodeNow now;
  now.now_ns = now_ns;
  std::unordered_map<const reader::MappedBox*, std::size_t> place;
  for (const Member& member : group_wait.members()) {
    const format::Header& header = member.box->header();
    Known& known = known_[member.box->path()];
    const std::uint32_t observations = header.observations_used.load(std::memory_order_acquire);
    const std::uint32_t state = header.state.load(std::memory_order_acquire);
    const std::uint64_t words = member.box->words_said();
    // gpu_marks, nccl_version and environment settle with the first communicator.
    const bool young = known.process.pid == 0 || known.process.environment.empty();
    if (young || observations != known.observations || state != known.state || words != known.words) {
      known.process = FactsOf(member.box->Image(0));
      known.observations = observations;
      known.state = state;
      known.words = words;
    }
    place[member.box.get()] = now.processes.size();
    nodes::ProcessNow& process = now.processes.emplace_back(known.process);
    process.words_said = words;
    process.watching = header.watching.load(std::memory_order_acquire) != 0;
    process.heartbeat_ns = header.heartbeat_ns.load(std::memory_order_acquire);
    process.inside_since_ns = compare->InsideSince(*member.box);
  }
  for (const LiveCompare::Stand& stand : compare->TakeStands()) {
    const auto at = place.find(stand.box);
    if (at == place.end()) continue;
    nodes::MemberNow member = MemberOf(*stand.box, stand);
    if (Possible(member)) now.processes[at->second].members.push_back(std::move(member));
  }
  for (const LiveCompare::Suspicion& suspicion : compare->suspicions())
    now.suspicious.push_back(suspicion.communicator);
  return now;
}

}  // namespace ncclwatch::watch
