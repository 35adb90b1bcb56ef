// Summaries read into the table.
#include <algorithm>
#include <utility>

#include "core/nodes/call_code.h"
#include "core/nodes/image_code.h"
#include "core/nodes/table_comm.h"
#include "core/nodes/words_code.h"
#include "core/reader/layout.h"

namespace ncclwatch::nodes {
namespace {

using format::CommunicatorState;
using What = diagnosis::LiveCompare::What;

// With its last call, and its share of the communicator.
constexpr std::size_t kMadeOfMember = sizeof(MemberRow) + sizeof(reader::Call) + 128;

std::int64_t Back(std::int64_t ns, std::uint64_t units) {
  constexpr std::uint64_t kMost = INT64_MAX / 4 / kAgeUnit_ns;
  return Later(ns, -static_cast<std::int64_t>(std::min(units, kMost)) * kAgeUnit_ns);
}

void ReadFacts(Reader* from, const ProcessNow* same_node, ProcessNow* to) {
  to->pid = from->NumberAs<std::uint32_t>();
  to->start_time = from->Number();
  to->rank = from->Signed32();
  to->local_rank = from->Signed32();
  to->command = from->Text(kMostCommand);
  if (same_node != nullptr) {
    to->pid_namespace = same_node->pid_namespace;
    to->world_size = same_node->world_size;
    to->local_world_size = same_node->local_world_size;
    to->attempt = same_node->attempt;
    to->boot_id = same_node->boot_id;
    to->host = same_node->host;
    to->node = same_node->node;
    to->job = same_node->job;
    to->nccl_version = same_node->nccl_version;
    to->gpu_marks = same_node->gpu_marks;
    to->realtime_minus_monotonic_ns = same_node->realtime_minus_monotonic_ns;
    return;
  }
  to->pid_namespace = from->Number();
  to->world_size = from->Signed32();
  to->local_world_size = from->Signed32();
  to->attempt = from->NumberAs<std::uint32_t>();
  to->boot_id = from->Text(kMostName);
  to->host = from->Text(kMostName);
  to->node = from->Text(kMostName);
  to->job = from->Text(kMostName);
  to->nccl_version = from->NumberAs<std::uint32_t>();
  to->gpu_marks = static_cast<format::GpuMarks>(from->NumberUpTo(static_cast<std::uint64_t>(format::GpuMarks::kBoth)));
  to->realtime_minus_monotonic_ns = from->Signed();
}

bool ReadMemberFacts(Reader* from, std::int64_t at_ns, MemberNow* to) {
  to->generation = from->NumberAs<std::uint32_t>();
  to->id = from->Whole();
  if (from->NumberUpTo(1) == 1) {
    to->parent = from->Whole();
    to->parent_ordinal = from->Number();
  }
  to->rank = from->NumberAs<std::uint32_t>();
  to->size = from->NumberAs<std::uint32_t>();
  to->flags = from->NumberAs<std::uint32_t>();
  to->color = from->Signed32();
  to->created_ns = Back(at_ns, from->Number());
  to->label = from->Text(format::kLabelBytes);
  to->gpu = from->Text(kMostName);
  const bool rank_known = (to->flags & format::kCommRankUnknown) == 0;
  return from->ok() && to->size <= reader::kMaxCommunicatorSize && (!rank_known || to->rank < to->size);
}

}  // namespace

struct Table::Telling {
  Node* node = nullptr;
  Reader from;
  std::int64_t at_ns = 0;   // the node's
  std::int64_t now_ns = 0;  // the hub's
  const ProcessNow* facts_before = nullptr;
  const ProcessNow* environment_before = nullptr;
  std::map<std::uint64_t, Check> said;
};
void Table::Forget(Node* node) {
  for (auto& [id, comm] : comms_) {
    const auto erased = std::erase_if(comm->refs, [&](const Ref& ref) { return ref.node == node; });
    if (erased > 0) comm->moved = true;
  }
  std::erase_if(comms_, [](const auto& comm) { return comm.second->refs.empty(); });
  node->processes.clear();
  node->members = node->observations = 0;
  Charge(node, 0, node->made);
  node->full = false;
}

Outcome Table::Tell(const std::string& name, std::string_view body, std::int64_t now_ns) {
  const auto found = nodes_.find(name);
  if (found == nodes_.end()) return Outcome::kGap;
  Node& node = found->second;
  Telling telling{&node, Reader(body), 0, now_ns, nullptr, nullptr, {}};
  Reader& from = telling.from;
  const std::uint8_t version = from.Byte();
  if (from.ok() && version != 0 && version != kWireVersion) return Outcome::kOther;
  const std::uint8_t bits = from.Byte();
  const auto session = from.NumberAs<std::uint32_t>();
  const std::uint64_t sequence = from.Number(), revision = from.Number();
  telling.at_ns = static_cast<std::int64_t>(from.NumberUpTo(INT64_MAX / 4));
  node.heard_ns = now_ns;
  if (!from.ok() || version == 0) return node.next = 0, Outcome::kDamaged;
  const bool begins = (bits & kBegins) != 0 && sequence == 0;
  if (!begins && (node.next == 0 || session != node.session || sequence != node.next))
    return node.next = 0, node.full ? Outcome::kFull : Outcome::kGap;
  if (begins) Forget(&node);
  from.Limit(std::min(kMostMadeOfNode - std::min(kMostMadeOfNode, node.made),
                      kMostMadeOfAll - std::min(kMostMadeOfAll, made_)));
  node.session = session;
  node.next = sequence + 1;
  node.revision = revision;
  if ((bits & kSuspects) != 0) {
    for (std::uint64_t left = from.NumberUpTo(64); left > 0 && from.ok(); --left) {
      const std::uint64_t communicator = from.Whole();
      if (reported_suspicious_.size() < kMostSuspicious) reported_suspicious_.insert(communicator);
    }
  }
  for (;;) {
    const std::uint64_t number = from.NumberUpTo(kNoProcess);
    if (!from.ok() || number == kNoProcess) break;
    if (!ReadProcess(&telling, number)) from.Fail();
  }
  Charge(&node, from.made(), 0);
  if (from.Done()) return Outcome::kTaken;
  node.next = 0;
  if (!from.full()) return Outcome::kDamaged;
  // Half of it would look like the whole.
  Forget(&node);
  node.full = true;
  return Outcome::kFull;
}

bool Table::ReadProcess(Telling* telling, std::uint64_t number) {
  Reader& from = telling->from;
  Node& node = *telling->node;
  const std::uint8_t bits = from.Byte();
  if (!from.ok()) return false;
  auto process = node.processes.find(number);
  if ((bits & kProcessFacts) != 0) {
    const bool same = (bits & kSameNode) != 0;
    if (process != node.processes.end() || (same && telling->facts_before == nullptr)) return false;
    ProcessNow facts;
    ReadFacts(&from, same ? telling->facts_before : nullptr, &facts);
    if (!from.ok()) return false;
    from.Made(sizeof(ProcessRow));
    process = node.processes.try_emplace(number).first;
    process->second.now = std::move(facts);
    telling->facts_before = &process->second.now;
    ProcessRow& row = process->second;
    if (!node.shift_known && realtime_minus_here_ns_)
      node.shift_ns = row.now.realtime_minus_monotonic_ns - *realtime_minus_here_ns_;
    row.gone = dead_.contains({row.place(), {row.now.pid, row.now.start_time}});
  }
  if (process == node.processes.end()) return false;
  ProcessRow& row = process->second;
  row.reported_ns = telling->at_ns;
  row.now.heartbeat_ns = Back(telling->at_ns, from.Number());
  if ((bits & kProcessState) != 0) {
    row.now.state =
        static_cast<format::ProcessState>(from.NumberUpTo(static_cast<std::uint64_t>(format::ProcessState::kCrashing)));
    row.now.watching = from.Byte() != 0;
  }
  if ((bits & kInsideCall) != 0) ReadInside(telling, &row);
  if ((bits & kEnvironment) != 0 && !ReadEnvironment(telling, &row)) return false;
  if ((bits & kWords) != 0) {
    const std::size_t before = from.made();
    row.now.last_words = ReadLastWords(&from);
    row.now.words = ReadWords(&from);
    Charge(&node, 0, std::exchange(row.words_made, from.made() - before));
  }
  if ((bits & kSeen) != 0) ReadSeen(telling, &row);
  return (bits & kMembers) == 0 ? from.ok() : ReadMembers(telling, &row);
}

bool Table::ReadEnvironment(Telling* telling, ProcessRow* row) {
  Reader& from = telling->from;
  const ProcessNow* const before = telling->environment_before;
  if (from.NumberUpTo(1) == 1) {
    if (!before) return false;
    row->now.nccl_version = before->nccl_version;
    row->now.environment = before->environment;
    from.Made(before->environment.size());
  } else {
    row->now.nccl_version = from.NumberAs<std::uint32_t>();
    row->now.environment = from.Text(kMostEnvironment);
  }
  telling->environment_before = &row->now;
  return from.ok();
}

void Table::ReadInside(Telling* telling, ProcessRow* row) {
  const std::uint64_t units = telling->from.Number();
  std::int64_t& since_ns = row->now.inside_since_ns;
  if (since_ns != 0) {
    ++waits_.resolved;
    waits_.longest_ns = std::max(waits_.longest_ns, telling->at_ns - since_ns);
  }
  since_ns = units == 0 ? 0 : Back(telling->at_ns, units - 1);
}

void Table::ReadSeen(Telling* telling, ProcessRow* row) {
  Reader& from = telling->from;
  for (std::uint64_t left = from.Number(); left > 0 && from.ok(); --left) {
    const reader::Observation seen = ReadObservation(&from);
    if (!from.ok() || ++telling->node->observations > kMostObservations) continue;
    from.Made(sizeof(seen));
    row->now.observations.push_back(seen);
    if (seen.what == format::Observed::kClosed) Mark(seen, true);
    if (seen.what == format::Observed::kRunning && dead_.erase({seen.place, {seen.pid, seen.start_time}}) > 0)
      Mark(seen, false);
    if (seen.what != format::Observed::kGone && seen.what != format::Observed::kClosed) continue;
    if (dead_.size() < kMostDead && dead_.insert({seen.place, {seen.pid, seen.start_time}}).second) ++deaths_;
    if (seen.rank >= 0 && dead_ranks_.size() < kMostDead) dead_ranks_.insert(seen.rank);
    for (auto& [number, process] : telling->node->processes) {
      const ProcessNow& now = process.now;
      process.gone |= now.pid == seen.pid && now.start_time == seen.start_time && process.place() == seen.place;
    }
  }
}

// Told by the hub's own leader, of a process of another node.
void Table::Mark(const reader::Observation& seen, bool gone) {
  for (auto& [name, node] : nodes_) {
    for (auto& [number, process] : node.processes) {
      const ProcessNow& now = process.now;
      if (now.pid == seen.pid && now.start_time == seen.start_time && process.place() == seen.place)
        process.gone = gone;
    }
  }
}

bool Table::ReadMembers(Telling* telling, ProcessRow* row) {
  std::uint64_t index = 0;
  for (std::uint64_t left = telling->from.NumberUpTo(kMostIndex); left > 0; --left, ++index) {
    index += telling->from.NumberUpTo(kMostIndex);
    if (index >= kMostIndex || !ReadMember(telling, row, static_cast<std::uint32_t>(index))) return false;
  }
  return telling->from.ok();
}

// The row of a communicator that is new in its place.
MemberRow* Table::Renewed(Telling* telling, ProcessRow* process, const MemberNow& facts) {
  if (const auto old = process->members.find(facts.index); old != process->members.end()) {
    if (const auto comm = comms_.find(old->second.now.id); comm != comms_.end()) {
      std::erase_if(comm->second->refs, [&](const Ref& ref) { return ref.member == &old->second; });
      comm->second->moved = true;
      if (comm->second->refs.empty()) comms_.erase(comm);
    }
    process->members.erase(old);
    --telling->node->members;
    Charge(telling->node, 0, kMadeOfMember);
  }
  if (telling->node->members >= kMostMembers) return nullptr;
  ++telling->node->members;
  telling->from.Made(kMadeOfMember);
  MemberRow& row = process->members[facts.index];
  row.now = facts;
  std::unique_ptr<Comm>& comm = comms_[facts.id];
  if (!comm) comm = std::make_unique<Comm>();
  comm->id = facts.id;
  if (comm->size == 0) comm->size = facts.size;
  const bool comparable = (facts.flags & (format::kCommIdentityUnknown | format::kCommGrown)) == 0;
  if (comparable && facts.size != 0 && facts.size != comm->size) comm->Differs(What::kDifferentSize, 0);
  comm->refs.push_back({telling->node, process, &row});
  return &row;
}

bool Table::ReadMember(Telling* telling, ProcessRow* process, std::uint32_t index) {
  Reader& from = telling->from;
  const std::uint8_t bits = from.Byte();
  MemberRow* row = nullptr;
  if ((bits & kMemberFacts) != 0) {
    MemberNow facts;
    facts.index = index;
    if (!ReadMemberFacts(&from, telling->at_ns, &facts)) return false;
    row = Renewed(telling, process, facts);
  } else if (const auto known = process->members.find(index); known != process->members.end()) {
    row = &known->second;
  }
  if (row == nullptr) return false;
  MemberNow& now = row->now;
  now.state = CommunicatorState::kReady;
  if ((bits & kState) != 0)
    now.state =
        static_cast<CommunicatorState>(from.NumberUpTo(static_cast<std::uint64_t>(CommunicatorState::kRevoked)));
  now.entered = from.Number();
  now.returned = now.entered - static_cast<std::uint64_t>((bits & kInside) != 0 ? from.Signed() : 0);
  now.outstanding = (bits & kOutstanding) != 0;
  row->since_ns = Back(telling->at_ns, from.Number());
  row->check.reset();
  row->last.reset();
  if ((bits & (kCheckHere | kCheckBefore)) != 0) {
    Check check;
    check.position = now.entered - ((bits & kCheckBefore) != 0 ? from.NumberUpTo(now.entered) : 0);
    Check& said = telling->said[now.id];
    if ((bits & kSameCheck) != 0 && said.position != check.position) return false;
    check.chain = (bits & kSameCheck) != 0 ? said.chain : from.Whole();
    if (!from.ok() || check.position == 0) return false;
    said = check;
    row->check = check;
    if (check.position == now.entered) now.chain = check.chain;
  }
  const std::uint8_t more = (bits & kMore) != 0 ? from.Byte() : 0;
  if ((more & kCounts) != 0) {
    now.creations = from.Number();
    now.empties = from.Number();
    now.sends = from.Number();
    now.receives = from.Number();
  }
  if ((more & kLastCall) != 0) row->last = std::make_unique<reader::Call>(ReadCall(telling->at_ns, &from));
  if (!from.ok()) return false;
  Moved(*telling, *row);
  return true;
}

void Table::Moved(const Telling& telling, const MemberRow& row) {
  Comm& comm = *comms_[row.now.id];
  const std::int64_t since_ns = std::min(telling.now_ns, Later(row.since_ns, telling.node->shift_ns));
  if (!comm.moved && comm.front.Waiting() && since_ns > comm.changed_ns) {
    ++waits_.resolved;
    waits_.longest_ns = std::max(waits_.longest_ns, since_ns - comm.changed_ns);
  }
  comm.changed_ns = std::max(comm.changed_ns, since_ns);
  comm.moved = true;
  const bool comparable = (row.now.flags & (format::kCommIdentityUnknown | format::kCommGrown)) == 0;
  if (row.check && comparable) comm.Compare(*row.check);
}

}  // namespace ncclwatch::nodes
