#include "core/nodes/table.h"

#include <algorithm>

#include "core/nodes/table_comm.h"

namespace ncclwatch::nodes {
namespace {

constexpr std::int64_t kRest_ns = 300'000'000;  // unmoved for so long: worth a look at how its members stand
// After a node was lost: what the others had done by then is told.
constexpr std::int64_t kReported_ns = 1'500'000'000;
constexpr std::int64_t kLongestSilence = 30'000'000'000;

std::int64_t InsideSince(const Table::Node& node) {
  std::int64_t since = 0;
  for (const auto& [number, process] : node.processes) {
    const std::int64_t inside_ns = process.now.inside_since_ns;
    if (inside_ns == 0 || process.gone || !node.connected) continue;
    const std::int64_t here_ns = Later(inside_ns, node.shift_ns);
    if (since == 0 || here_ns < since) since = here_ns;
  }
  return since;
}

}  // namespace

Table::Table() = default;
Table::~Table() = default;

bool Table::HasRoom() {
  if (nodes_.size() < kMostNodes) return true;
  auto first = nodes_.end();
  for (auto node = nodes_.begin(); node != nodes_.end(); ++node)
    if (!node->second.connected && (first == nodes_.end() || node->second.left_ns < first->second.left_ns))
      first = node;
  if (first == nodes_.end()) return false;
  Forget(&first->second);
  nodes_.erase(first);
  return true;
}

void Table::Charge(Node* node, std::size_t more, std::size_t less) {
  node->made += more - less;
  made_ += more - less;
}

void Table::Join(const std::string& name, std::int64_t now_ns) {
  if (!nodes_.contains(name) && !HasRoom()) return;
  Node& node = nodes_[name];
  node.name = name;
  node.connected = true;
  node.heard_ns = now_ns;
  node.left_ns = 0;
  node.next = 0;
}

void Table::Leave(const std::string& name, bool closed, std::int64_t now_ns) {
  const auto found = nodes_.find(name);
  if (found == nodes_.end()) return;
  if (found->second.connected) {
    found->second.left_ns = now_ns;
    found->second.others_then.clear();
    NoteOthers(&found->second);
  }
  found->second.connected = false;
  found->second.closed = closed;
  found->second.next = 0;
}

void Table::SetShift(const std::string& name, std::int64_t shift_ns) {
  const auto found = nodes_.find(name);
  if (found == nodes_.end()) return;
  found->second.shift_ns = shift_ns;
  found->second.shift_known = true;
}

void Table::Poll(std::int64_t now_ns) {
  for (auto& [id, comm] : comms_)
    if (comm->moved && now_ns - comm->changed_ns >= kRest_ns) comm->Look();
  MakeSuspicions(now_ns);
  for (auto& [name, node] : nodes_) node.inside_since_ns = InsideSince(node);
  for (auto& [name, node] : nodes_)
    if (!node.connected && node.left_ns != 0 && now_ns - node.left_ns < kReported_ns) NoteOthers(&node);
}

void Table::MakeSuspicions(std::int64_t now_ns) {
  suspicions_.clear();
  for (const std::uint64_t id : reported_suspicious_) {
    const auto comm = comms_.find(id);
    if (comm == comms_.end()) continue;
    // Where, it was not told: at the last call that anybody has entered, or before.
    std::uint64_t ahead = 1;
    for (const Ref& ref : comm->second->refs) ahead = std::max(ahead, ref.member->now.entered);
    comm->second->Differs(diagnosis::LiveCompare::What::kDifferentCall, ahead - 1);
  }
  reported_suspicious_.clear();
  for (const auto& [id, comm] : comms_) {
    if (!comm->differs || now_ns < comm->silent_until_ns) continue;
    Suspicion suspicion{comm->what, id, comm->position, 0, comm->size};
    for (const Ref& ref : comm->refs)
      if (Counts(*ref.member) && ref.member->now.entered > comm->position) ++suspicion.arrived;
    suspicions_.push_back(suspicion);
  }
}

void Table::Acknowledge(std::uint64_t communicator, std::int64_t now_ns) {
  std::erase_if(suspicions_, [&](const Suspicion& suspicion) { return suspicion.communicator == communicator; });
  const auto found = comms_.find(communicator);
  if (found == comms_.end()) return;
  Comm& comm = *found->second;
  comm.silent_until_ns = now_ns + comm.silence_ns;
  comm.silence_ns = std::min(comm.silence_ns * 2, kLongestSilence);
}

std::int64_t Table::QuietSince() const {
  std::int64_t since = 0;
  for (const auto& [id, comm] : comms_) {
    if (!comm->moved && comm->front.Waiting() && (since == 0 || comm->changed_ns < since)) since = comm->changed_ns;
  }
  for (const auto& [name, node] : nodes_)
    if (node.inside_since_ns != 0 && (since == 0 || node.inside_since_ns < since)) since = node.inside_since_ns;
  return since;
}

std::optional<Table::Front> Table::World() const {
  const Comm* world = nullptr;
  for (const auto& [id, comm] : comms_) {
    if (!world || std::pair(comm->size, comm->refs.size()) > std::pair(world->size, world->refs.size()))
      world = comm.get();
  }
  return world ? FrontOf(world->id) : std::nullopt;
}

std::optional<Table::Front> Table::FrontOf(std::uint64_t communicator) const {
  const auto found = comms_.find(communicator);
  if (found == comms_.end()) return std::nullopt;
  Comm now = *found->second;
  now.Look();
  return now.front;
}

bool Table::IsGone(std::int32_t rank) const { return dead_ranks_.contains(rank); }

std::set<std::uint32_t> Table::SeenIn(std::uint64_t communicator) const {
  std::set<std::uint32_t> seen;
  const auto found = comms_.find(communicator);
  if (found == comms_.end()) return seen;
  for (const Ref& ref : found->second->refs)
    if ((ref.member->now.flags & format::kCommRankUnknown) == 0) seen.insert(ref.member->now.rank);
  return seen;
}

std::vector<std::string> Table::Concerned(std::uint64_t communicator) const {
  const auto found = comms_.find(communicator);
  if (found == comms_.end()) return {};
  const Comm& comm = *found->second;
  std::uint64_t ahead = 0;
  std::map<std::pair<std::uint64_t, std::uint64_t>, int> votes;  // (position, chain)
  for (const Ref& ref : comm.refs) {
    ahead = std::max(ahead, ref.member->now.entered);
    if (ref.member->check) ++votes[{ref.member->check->position, ref.member->check->chain}];
  }
  std::map<std::string, std::uint64_t> weight;  // the lighter, the sooner
  for (const Ref& ref : comm.refs) {
    std::uint64_t own = 2u << 20;
    if (ref.member->check)
      own = (1u << 20) + static_cast<std::uint64_t>(votes[{ref.member->check->position, ref.member->check->chain}]);
    if (ref.member->now.entered < ahead) own = 1;
    if (ref.process->gone) own = 0;
    const auto [at, fresh] = weight.try_emplace(ref.node->name, own);
    if (!fresh) at->second = std::min(at->second, own);
  }
  std::vector<std::string> nodes;
  for (const auto& [name, own] : weight) nodes.push_back(name);
  std::stable_sort(nodes.begin(), nodes.end(),
                   [&](const std::string& a, const std::string& b) { return weight[a] < weight[b]; });
  return nodes;
}

std::uint64_t Table::FinishedByOthers(const Node& node, std::uint64_t communicator) const {
  std::uint64_t most = 0;
  const auto found = comms_.find(communicator);
  if (found == comms_.end()) return 0;
  for (const Ref& ref : found->second->refs) {
    if (ref.node == &node || !ref.node->connected || !Counts(*ref.member)) continue;
    const std::uint64_t entered = ref.member->now.entered;
    most = std::max(most, Pending(*ref.member) && entered > 0 ? entered - 1 : entered);
  }
  return most;
}

// What a node told last is up to a second old: that the others were further when it fell silent proves nothing.
void Table::NoteOthers(Node* node) {
  for (const auto& [number, process] : node->processes) {
    for (const auto& [index, row] : process.members) {
      std::uint64_t& then = node->others_then[row.now.id];
      then = std::max(then, FinishedByOthers(*node, row.now.id));
    }
  }
}

void Table::BringForward(const Node& node, reader::BoxImage* image) const {
  if (node.connected) return;
  for (reader::Communicator& comm : image->communicators) {
    const std::uint64_t finished = FinishedByOthers(node, comm.id);
    if (finished == 0 || finished < comm.entered) continue;
    comm.chain = finished > comm.entered ? 0 : comm.chain;
    comm.entered = comm.returned = finished;
    comm.tickets = comm.marks[0] = 1;
    std::erase_if(image->calls, [&](const reader::Call& call) {
      return call.communicator == comm.index && call.generation == comm.generation && call.position < finished;
    });
  }
}

bool Table::IsOvertaken(const Node& node) const {
  if (node.connected) return false;
  for (const auto& [number, process] : node.processes) {
    for (const auto& [index, row] : process.members) {
      const auto then = node.others_then.find(row.now.id);
      if (!Counts(row) || then == node.others_then.end()) continue;
      // One more: the root of a broadcast may be done before the others have begun.
      if (FinishedByOthers(node, row.now.id) > std::max(row.now.entered, then->second) + 1) return true;
    }
  }
  return false;
}

std::vector<std::string> Table::Quiet(std::int64_t since_ns) const {
  std::set<std::string> nodes;
  for (const auto& [id, comm] : comms_) {
    if (comm->moved || !comm->front.Waiting() || comm->changed_ns > since_ns) continue;
    for (const Ref& ref : comm->refs) nodes.insert(ref.node->name);
  }
  for (const auto& [name, node] : nodes_)
    if (node.inside_since_ns != 0 && node.inside_since_ns <= since_ns) nodes.insert(name);
  return {nodes.begin(), nodes.end()};
}

}  // namespace ncclwatch::nodes
