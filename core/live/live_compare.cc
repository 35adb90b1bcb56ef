#include "core/live/live_compare.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "core/calls/amounts.h"
#include "core/calls/creations.h"
#include "core/calls/open_calls.h"
#include "core/reader/layout.h"
#include "core/reader/load.h"
#include "ncclwatch/format/fingerprint.h"

namespace ncclwatch::diagnosis {
namespace {

using format::CommunicatorState;
using reader::Call;
using reader::Load;
using reader::MappedBox;

constexpr std::uint64_t kNewest = 1024;    // records of one box read in one poll
constexpr std::size_t kFirstWindow = 256;  // positions remembered for a communicator, a power of two
constexpr std::size_t kLargestWindow = 16384;
constexpr std::int64_t kFirstSilence = 250'000'000;
constexpr std::int64_t kLongestSilence = 30'000'000'000;

// What the first member to enter a position did there.
struct Seen {
  std::uint64_t position = UINT64_MAX;
  std::uint64_t chain = 0;
  std::uint64_t fingerprint = 0;
  std::uint64_t empties = 0;  // empty calls that it had made before
  // Of calls with an amount for each pair of ranks: those who have told theirs, and their PairSums.
  std::uint32_t reported = 0;
  bool all_known = true;
  std::uint64_t sum = 0;
};

// The call that made a communicator at one of its parent's ordinals, as the first member made it.
struct SeenCreation {
  std::uint64_t ordinal = UINT64_MAX;
  Creation creation;
  std::uint32_t arguments = 0;  // ArgumentsHash() of the first member that has one
};
constexpr std::size_t kCreations = 64;  // remembered for a communicator, a power of two

struct MemberState {
  std::uint64_t generation = 0;
  std::uint64_t id = 0;
  std::uint64_t entered = 0;
  std::uint64_t returned = 0;
  std::uint64_t finished = 0;  // tickets below it are finished
  std::uint64_t empties = 0;   // counted from its records
  bool counting = true;        // all its records have been seen: empties is true
  bool marked = false;         // a launch is outstanding on the GPU
  bool known = false;
  std::uint32_t size = 0;
  CommunicatorState state{};
  std::uint64_t pace_position = 0;  // since the last TakeStands, 0 none
  std::uint64_t pace_chain = 0;
};

bool Counts(const MemberState& member) {
  return member.known && (member.state == CommunicatorState::kInitializing ||
                          member.state == CommunicatorState::kReady || member.state == CommunicatorState::kFinalizing);
}

struct BoxState {
  OpenCalls open;
  const MappedBox* box = nullptr;
  std::uint64_t cursor = 0;
  std::uint64_t unwritten = UINT64_MAX;  // slot that the last poll stopped at
  std::vector<MemberState> members;      // by index in the box's table
};

struct CommState {
  std::uint32_t size = 0;
  std::vector<Seen> window = std::vector<Seen>(kFirstWindow);
  std::int64_t changed_ns = 0;
  std::int64_t silent_until_ns = 0;
  std::int64_t silence_ns = kFirstSilence;
  bool waited = false;   // as of the last poll
  bool empties = false;  // somebody made empty calls on it
  std::vector<SeenCreation> creations;
  std::uint64_t behind = 0;  // lowest count of entered collectives, as of the last poll
  bool differs = false;
  LiveCompare::What what{};
  std::uint64_t position = 0;

  Seen& At(std::uint64_t at) { return window[at & (window.size() - 1)]; }
};

void Grow(CommState* comm) {
  std::vector<Seen> larger(comm->window.size() * 2);
  for (const Seen& kept : comm->window) {
    if (kept.position != UINT64_MAX) larger[kept.position & (larger.size() - 1)] = kept;
  }
  comm->window = std::move(larger);
}

void Differs(LiveCompare::What what, std::uint64_t position, CommState* comm) {
  if (comm->differs && comm->position <= position) return;
  comm->differs = true;
  comm->what = what;
  comm->position = position;
}

}  // namespace

struct LiveCompare::State {
  std::vector<BoxState> boxes;
  std::unordered_map<std::uint64_t, CommState> comms;
  std::vector<Suspicion> suspicions;
  std::vector<Front> fronts;
  Waits waits;
  reader::CallParts parts;  // of the call that is looked at

  void ReadTable(BoxState* box, std::int64_t now_ns);
  void ReadEntry(std::uint32_t index, const format::Communicator& entry, BoxState* box, std::int64_t now_ns);
  void ReadRecords(BoxState* box);
  void LookInside(BoxState* box, std::int64_t now_ns);
  bool AwaitWriter(std::uint64_t slot, std::uint64_t head, BoxState* box);
  void SeeCall(const Call& call, MemberState* member);
  void SeeAmounts(const BoxState& box, const Call& call, std::uint32_t rank, CommState* comm);
  void SeeCreation(const Call& call, CommState* comm);
  void SeeEmpty(const Call& call, MemberState* member, CommState* comm);
  void SeeFirst(const Call& call, const MemberState& member, std::uint64_t fingerprint, CommState* comm);
  bool EmptyInstead(std::uint64_t position, const MemberState& member) const;
  void MakeFronts();
  void MakeSuspicions(std::int64_t now_ns);
};

void LiveCompare::State::ReadEntry(std::uint32_t index, const format::Communicator& entry, BoxState* box,
                                   std::int64_t now_ns) {
  const std::uint32_t generation = Load(entry.generation);
  const auto state = static_cast<CommunicatorState>(Load(entry.state));
  const std::uint32_t size = Load(entry.size), flags = Load(entry.flags);
  const std::uint64_t id = Load(entry.id), returned = Load(entry.returned), entered = Load(entry.entered);
  const std::uint64_t tickets = Load(entry.tickets);
  if (state == CommunicatorState::kFree || size > reader::kMaxCommunicatorSize) return;
  if (Load(entry.generation) != generation) return;  // being given to another communicator: next time
  MemberState& member = box->members[index];
  const bool reused = member.known && (member.generation != generation || member.id != id);
  if (reused) member = {};
  if ((flags & (format::kCommIdentityUnknown | format::kCommGrown)) != 0) return;
  const MemberState before = member;
  member.known = true;
  member.generation = generation;
  member.id = id;
  member.state = state;
  member.size = size;
  member.returned = returned;
  member.entered = entered;
  // Marks of older tickets have been overwritten by younger ones.
  member.finished = std::max(member.finished, tickets > format::kMarks ? tickets - format::kMarks : 0);
  while (member.finished < tickets &&
         entry.marks[member.finished % format::kMarks].load(std::memory_order_acquire) > member.finished) {
    ++member.finished;
  }
  member.marked = member.finished < tickets;
  CommState& comm = comms[member.id];
  if (comm.size == 0) comm.size = member.size;
  if (member.size != 0 && member.size != comm.size) Differs(What::kDifferentSize, 0, &comm);
  const bool moved = !before.known || before.entered != member.entered || before.returned != member.returned ||
                     before.finished != member.finished || before.state != member.state;
  if (!moved) return;
  if (comm.waited && comm.changed_ns != now_ns) {
    ++waits.resolved;
    waits.longest_ns = std::max(waits.longest_ns, now_ns - comm.changed_ns);
  }
  comm.changed_ns = now_ns;
}

void LiveCompare::State::ReadTable(BoxState* box, std::int64_t now_ns) {
  const std::uint32_t used = box->box->communicators();
  if (box->members.size() < used) box->members.resize(used);
  for (std::uint32_t index = 0; index < used; ++index) ReadEntry(index, box->box->communicator(index), box, now_ns);
}

void LiveCompare::State::SeeEmpty(const Call& call, MemberState* member, CommState* comm) {
  ++member->empties;
  comm->empties = true;
  const Seen& seen = comm->At(call.position);
  if (member->counting && seen.position == call.position && seen.empties < member->empties) {
    Differs(What::kZeroCount, call.position, comm);
  }
}

// Some other member stands before the position and has made more empty calls.
bool LiveCompare::State::EmptyInstead(std::uint64_t position, const MemberState& member) const {
  for (const BoxState& box : boxes) {
    for (const MemberState& other : box.members) {
      if (other.id == member.id && Counts(other) && other.counting && other.entered == position &&
          other.empties > member.empties) {
        return true;
      }
    }
  }
  return false;
}

void LiveCompare::State::SeeFirst(const Call& call, const MemberState& member, std::uint64_t fingerprint,
                                  CommState* comm) {
  // Somebody has still to be compared with what would be overwritten.
  const Seen& old = comm->At(call.position);
  if (old.position != UINT64_MAX && comm->behind <= old.position && comm->window.size() < kLargestWindow) Grow(comm);
  if (comm->empties && member.counting && EmptyInstead(call.position, member)) {
    Differs(What::kZeroCount, call.position, comm);
  }
  comm->At(call.position) = {call.position, call.chain, fingerprint, member.counting ? member.empties : UINT64_MAX};
}

void LiveCompare::State::SeeCall(const Call& call, MemberState* member) {
  CommState& comm = comms[member->id];
  if ((call.flags & format::kEmpty) != 0) return SeeEmpty(call, member, &comm);
  if (Rounder(call.position + 1, member->pace_position)) {
    member->pace_position = call.position + 1;
    member->pace_chain = call.chain;
  }
  const std::uint64_t fingerprint = reader::FingerprintOf(call);
  const Seen& seen = comm.At(call.position);
  if (seen.position != call.position) {
    // A later position in its place: forgotten, too far behind the others. The chain tells at a later call.
    if (seen.position == UINT64_MAX || seen.position < call.position) SeeFirst(call, *member, fingerprint, &comm);
    return;
  }
  if (seen.fingerprint != fingerprint || seen.chain != call.chain) {
    Differs(What::kDifferentCall, call.position, &comm);
  } else if (member->counting && seen.empties != UINT64_MAX && seen.empties != member->empties) {
    Differs(What::kZeroCount, call.position, &comm);
  }
}

void LiveCompare::State::SeeAmounts(const BoxState& box, const Call& call, std::uint32_t rank, CommState* comm) {
  Seen& seen = comm->At(call.position);
  if (seen.position != call.position || !box.box->ReadParts(call, &parts)) return;
  const PairSum own = SumOf(parts, rank);
  ++seen.reported;
  seen.all_known = seen.all_known && own.known;
  seen.sum += own.sum;
  if (seen.reported == comm->size && seen.all_known && seen.sum != 0)
    Differs(What::kDifferentAmount, call.position, comm);
}

void LiveCompare::State::SeeCreation(const Call& call, CommState* comm) {
  if (comm->creations.empty()) comm->creations.resize(kCreations);
  SeenCreation& seen = comm->creations[call.position & (kCreations - 1)];
  const Creation creation = CreationOf(call);
  const std::uint32_t arguments = ArgumentsHash(call);
  if (seen.ordinal == UINT64_MAX || seen.ordinal < call.position) seen = {call.position, creation, arguments};
  if (seen.ordinal != call.position) return;
  if (!(seen.creation == creation) || (seen.arguments != 0 && arguments != 0 && seen.arguments != arguments))
    Differs(What::kDifferentCreation, creation.collectives, comm);
  if (seen.arguments == 0) seen.arguments = arguments;
}

// True: stop here and look again at the next poll. Never twice for one slot: its writer may have died half way.
bool LiveCompare::State::AwaitWriter(std::uint64_t slot, std::uint64_t head, BoxState* box) {
  if (head - slot > reader::kUnwrittenTail || box->unwritten == slot) return false;
  box->unwritten = slot;
  box->cursor = slot;
  return true;
}

void LiveCompare::State::ReadRecords(BoxState* box) {
  const std::uint64_t head = box->box->head();
  const std::uint64_t most = std::min(kNewest, box->box->ring_size());
  std::uint64_t slot = std::min(box->cursor, head);
  if (head - slot > most) {
    slot = head - most;
    for (MemberState& member : box->members) member.counting = false;
  }
  Call call;
  for (; slot < head; ++slot) {
    if (!box->box->Read(slot, &call)) {
      if (AwaitWriter(slot, head, box)) return;
      continue;
    }
    box->open.See(slot, call);
    const bool collective = functions::IsCollective(call.function);
    if (call.communicator >= box->members.size() || !(collective || HasOrdinal(call))) continue;
    MemberState& member = box->members[call.communicator];
    if (!member.known || member.generation != call.generation) continue;
    if (!collective) {
      SeeCreation(call, &comms[member.id]);
      continue;
    }
    SeeCall(call, &member);
    if ((call.flags & format::kHasParts) != 0)
      SeeAmounts(*box, call, Load(box->box->communicator(call.communicator).rank), &comms[member.id]);
  }
  box->cursor = head;
}

void LiveCompare::State::LookInside(BoxState* box, std::int64_t now_ns) {
  const std::int64_t since_ns = box->open.since_ns();
  if (!box->open.Refresh(*box->box) || since_ns == 0) return;
  ++waits.resolved;
  waits.longest_ns = std::max(waits.longest_ns, now_ns - since_ns);
}

void LiveCompare::State::MakeFronts() {
  std::unordered_map<std::uint64_t, std::size_t> place;
  fronts.clear();
  for (const BoxState& box : boxes) {
    for (const MemberState& member : box.members) {
      if (!Counts(member)) continue;
      const auto [found, fresh] = place.try_emplace(member.id, fronts.size());
      if (fresh) {
        const CommState& comm = comms[member.id];
        fronts.push_back({member.id, comm.size, 0, 0, 0, 0, 0, UINT64_MAX, 0, comm.changed_ns});
      }
      Front& front = fronts[found->second];
      ++front.members;
      front.initializing += member.state == CommunicatorState::kInitializing ? 1 : 0;
      front.ready += member.state == CommunicatorState::kReady ? 1 : 0;
      front.pending += member.marked || member.returned < member.entered ? 1 : 0;
      front.behind = std::min(front.behind, member.entered);
      if (member.entered > front.ahead) {
        front.ahead = member.entered;
        front.arrived = 0;
      }
      front.arrived += member.entered == front.ahead ? 1 : 0;
    }
  }
  for (const Front& front : fronts) {
    comms[front.communicator].waited = front.Waiting();
    comms[front.communicator].behind = front.behind;
  }
  // Nobody is left in the others: nobody waits there.
  for (auto comm = comms.begin(); comm != comms.end();) {
    comm = place.contains(comm->first) ? std::next(comm) : comms.erase(comm);
  }
}

void LiveCompare::State::MakeSuspicions(std::int64_t now_ns) {
  suspicions.clear();
  for (auto& [id, comm] : comms) {
    if (!comm.differs || now_ns < comm.silent_until_ns) continue;
    Suspicion suspicion{comm.what, id, comm.position, 0, comm.size};
    for (const BoxState& box : boxes) {
      for (const MemberState& member : box.members) {
        if (member.id == id && Counts(member) && member.entered > comm.position) ++suspicion.arrived;
      }
    }
    suspicions.push_back(suspicion);
  }
}

LiveCompare::LiveCompare() : state_(std::make_unique<State>()) {}
LiveCompare::~LiveCompare() = default;

void LiveCompare::Follow(const MappedBox& box) {
  Forget(box);
  state_->boxes.emplace_back().box = &box;
}

void LiveCompare::Forget(const MappedBox& box) {
  std::erase_if(state_->boxes, [&](const BoxState& known) { return known.box == &box; });
}

bool LiveCompare::Poll(std::int64_t now_ns) {
  // All tables before all records: a record's communicator is then known, whichever box it is in.
  for (BoxState& box : state_->boxes) state_->ReadTable(&box, now_ns);
  for (BoxState& box : state_->boxes) state_->ReadRecords(&box);
  for (BoxState& box : state_->boxes) state_->LookInside(&box, now_ns);
  state_->MakeFronts();
  state_->MakeSuspicions(now_ns);
  return !state_->suspicions.empty();
}

const std::vector<LiveCompare::Suspicion>& LiveCompare::suspicions() const { return state_->suspicions; }

void LiveCompare::Acknowledge(std::uint64_t communicator, std::int64_t now_ns) {
  std::erase_if(state_->suspicions, [&](const Suspicion& suspicion) { return suspicion.communicator == communicator; });
  const auto found = state_->comms.find(communicator);
  if (found == state_->comms.end()) return;
  found->second.silent_until_ns = now_ns + found->second.silence_ns;
  found->second.silence_ns = std::min(found->second.silence_ns * 2, kLongestSilence);
}

std::int64_t LiveCompare::InsideSince(const MappedBox& box) const {
  for (const BoxState& known : state_->boxes)
    if (known.box == &box) return known.open.since_ns();
  return 0;
}

std::vector<LiveCompare::Front> LiveCompare::Fronts() const { return state_->fronts; }

std::vector<LiveCompare::Stand> LiveCompare::TakeStands() {
  std::vector<Stand> stands;
  for (BoxState& box : state_->boxes) {
    for (std::size_t index = 0; index < box.members.size(); ++index) {
      MemberState& member = box.members[index];
      if (!member.known) continue;
      stands.push_back({box.box, static_cast<std::uint32_t>(index), member.entered, member.returned, member.marked,
                        member.pace_position, member.pace_chain});
      member.pace_position = member.pace_chain = 0;
    }
  }
  return stands;
}

std::int64_t LiveCompare::QuietSince() const {
  std::int64_t since = 0;
  for (const Front& front : state_->fronts) {
    if (front.Waiting() && (since == 0 || front.changed_ns < since)) since = front.changed_ns;
  }
  for (const BoxState& box : state_->boxes)
    if (const std::int64_t inside = box.open.since_ns(); inside != 0 && (since == 0 || inside < since)) since = inside;
  return since;
}

LiveCompare::Waits LiveCompare::waits() const { return state_->waits; }

}  // namespace ncclwatch::diagnosis
