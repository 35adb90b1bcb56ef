#include "shim/mpi/communicators/communicators.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <vector>

#include "shim/base/put.h"
#include "shim/black_box/environment.h"
#include "shim/black_box/identity.h"
#include "shim/black_box/table.h"
#include "shim/mpi/core/misuse.h"
#include "shim/mpi/core/real.h"
#include "shim/mpi/objects/groups.h"
#include "shim/mpi/objects/objects.h"
#include "shim/mpi/record/collective_arguments.h"
#include "shim/mpi/record/parts.h"
#include "shim/mpi/record/persistent.h"
#include "shim/mpi/record/record.h"
#include "watchdog/log/log.h"

namespace ncclwatch::shim::mpi {
namespace {

using format::CommunicatorState;
using format::kNoCommunicator;
using functions::Function;

constexpr std::uint32_t kUncompared = format::kCommIdentityUnknown | format::kCommForeign;
constexpr std::uint32_t kBetweenGroups = format::kCommInter | format::kCommBothGroups;
constexpr std::uint32_t kNoLibrary = ~0u;  // entries of MPI belong to no libnccl

std::uint32_t world_index = kNoCommunicator, self_index = kNoCommunicator;

void Bind(Box& box, std::uint32_t index, MPI_Comm comm) {
  WriterLock lock(box);
  Put(box.communicators[index].handle, Bits(comm));
  box.handles.Insert(Bits(comm), index);
}

void Fill(format::Communicator& entry, MPI_Comm comm) {
  int rank = 0, size = 0, inter = 0;
  auto* ask_rank = NCCLWATCH_REAL(MPI_Comm_rank);
  auto* ask_size = NCCLWATCH_REAL(MPI_Comm_size);
  auto* ask_inter = NCCLWATCH_REAL(MPI_Comm_test_inter);
  if (!ask_rank || !ask_size || !ask_inter) return;
  ask_rank(comm, &rank);
  ask_size(comm, &size);
  ask_inter(comm, &inter);
  Put(entry.rank, rank);
  Put(entry.size, size);
  constexpr std::uint32_t kUnsettled = format::kCommRankUnknown | kBetweenGroups;
  Put(entry.flags, (entry.flags & ~kUnsettled) | (inter ? format::kCommInter : 0u));
}

// The ranks that the members of a group have in a communicator, empty if that is not known.
std::vector<int> Translate(MPI_Group group, MPI_Comm to) {
  std::vector<int> there;
  auto* group_of = NCCLWATCH_REAL(MPI_Comm_group);
  auto* release = NCCLWATCH_REAL(MPI_Group_free);
  MPI_Group whole = MPI_GROUP_NULL;
  if (!group_of || !release || group_of(to, &whole) != MPI_SUCCESS) return there;
  if (!RanksIn(group, whole, &there)) there.clear();
  release(&whole);
  return there;
}

std::uint64_t HashOf(const std::vector<int>& ranks) {
  std::uint64_t hash = ranks.size();
  for (const int rank : ranks) hash = format::Mix(hash, static_cast<std::uint32_t>(rank));
  return hash;
}

// Ranks in `in` of the members of a communicator's own group, or of the other one of two.
std::vector<int> Members(MPI_Comm comm, Function which, MPI_Comm in) {
  auto* group_of = RealFunction(static_cast<decltype(&PMPI_Comm_group)>(nullptr), which);
  auto* release = NCCLWATCH_REAL(MPI_Group_free);
  MPI_Group group = MPI_GROUP_NULL;
  if (!group_of || !release || group_of(comm, &group) != MPI_SUCCESS) return {};
  std::vector<int> members = Translate(group, in);
  release(&group);
  return members;
}
std::vector<int> OwnMembers(MPI_Comm comm, MPI_Comm in) { return Members(comm, Function::MPI_Comm_group, in); }
std::vector<int> OtherMembers(MPI_Comm inter) {
  return Members(inter, Function::MPI_Comm_remote_group, MPI_COMM_WORLD);
}

// Both sides must come to the same: the group with the lower first rank goes before.
void IdentifyInter(Box& box, format::Communicator& entry, MPI_Comm comm) {
  const std::vector<int> own = OwnMembers(comm, MPI_COMM_WORLD), other = OtherMembers(comm);
  const bool known = !own.empty() && !other.empty() &&
                     std::none_of(other.begin(), other.end(), [](int rank) { return rank == MPI_UNDEFINED; });
  if (!known) return Put(entry.flags, entry.flags | format::kCommIdentityUnknown);  // processes of another world
  const bool first = own.front() < other.front();
  const std::uint64_t groups =
      first ? format::Mix(HashOf(own), HashOf(other)) : format::Mix(HashOf(other), HashOf(own));
  Put(entry.id, IdOf(Origin::kInter, 0, CountUse(box, groups), groups));
  Put(entry.color, first ? own.size() : 0);
  Put(entry.rank, entry.rank + (first ? 0 : other.size()));
  Put(entry.size, own.size() + other.size());
  Put(entry.flags, entry.flags | format::kCommBothGroups);
}

std::uint64_t IdOfGroup(Box& box, std::uint64_t parent, std::uint64_t tag, const std::vector<int>& members) {
  const std::uint64_t what = format::Mix(tag, HashOf(members));
  return IdOf(Origin::kOfGroupAlone, parent, CountUse(box, IdOf(Origin::kOfGroupAlone, parent, 0, what)), what);
}

// Whom the group of a call has: said with it, so that those who do not come, or say otherwise, are known by name.
void TellMembers(Call& call, const CollectiveArguments& arguments, const std::vector<int>& members) {
  Parts parts(call, arguments.size(), static_cast<std::uint32_t>(members.size()));
  arguments.AddTo(parts);
  for (const int rank : members) parts.Add({static_cast<std::uint32_t>(rank), format::kNoType, 0, 0});
  parts.Done();
}

MPI_Comm HandleOf(const format::Communicator& entry) {
  MPI_Comm comm{};
  std::memcpy(&comm, &entry.handle, sizeof(MPI_Comm));  // NOLINT(bugprone-sizeof-expression): a pointer in Open MPI
  return comm;
}

void TellGroup(Call& call, const format::Communicator& parent, MPI_Group group) {
  try {
    if (group == MPI_GROUP_EMPTY)
      TellMembers(call, {}, {});
    else if (IsAlive(ObjectKind::kGroup, Bits(group)))
      if (const std::vector<int> members = Translate(group, HandleOf(parent)); !members.empty())
        TellMembers(call, {}, members);
  } catch (...) {
    return;  // out of memory: nothing is said of it
  }
}

void IdentifyByGroup(Call& call, const format::Communicator& parent, CommCreation* making, shim::Origin* origin) {
  if (!IsAlive(ObjectKind::kGroup, Bits(making->group))) return;
  try {
    const std::vector<int> members = Translate(making->group, HandleOf(parent));
    const auto own = std::find(members.begin(), members.end(), static_cast<int>(parent.rank));
    if (own == members.end()) return;
    origin->id = IdOfGroup(call.box, parent.id, making->what, members);
    origin->rank = static_cast<std::uint32_t>(own - members.begin());
    origin->size = static_cast<std::uint32_t>(members.size());
    origin->flags &= ~std::uint32_t{format::kCommRankUnknown};
    making->identified = true;
    CollectiveArguments arguments;
    arguments.Add(Argument::kTag, static_cast<std::int32_t>(making->what));
    arguments.WriteHash(call);
    call.bytes = 1 + CountUse(call.box, IdOf(Origin::kOfGroupAlone, parent.id, 1, HashOf(members)));
    TellMembers(call, arguments, members);
  } catch (...) {
    return;  // out of memory: it is identified afterwards
  }
}

// What could not be said before it was made: MPI would end the job over a question about a group that is none, which
// the call itself may be allowed to survive.
void Identify(Box& box, format::Communicator& entry, const CommCreation& making, MPI_Comm parent, MPI_Comm comm) {
  try {
    if (making.origin == Origin::kByMembers) {
      const std::vector<int> members = OwnMembers(comm, parent);
      if (!members.empty())
        Put(entry.id, IdOf(making.origin, entry.parent, entry.parent_ordinal, static_cast<std::uint32_t>(members[0])));
    } else if (making.origin == Origin::kOfGroupAlone) {
      if (!making.identified) Put(entry.id, IdOfGroup(box, entry.parent, making.what, OwnMembers(comm, parent)));
    } else if (entry.flags & format::kCommInter) {
      IdentifyInter(box, entry, comm);
    }
  } catch (...) {
    Put(entry.flags, entry.flags | format::kCommIdentityUnknown);  // out of memory
  }
}

}  // namespace

std::uint64_t IdOf(Origin origin, std::uint64_t parent, std::uint64_t ordinal, std::uint64_t what) {
  return identity::NotZero(
      format::Mix(format::Mix(format::Mix(static_cast<std::uint64_t>(origin), parent), ordinal), what));
}

namespace {

// Which of those that are made from the parent it is, and where it stands among the collectives there.
void TakeOrdinal(Call& call, format::Communicator& parent, bool counts) {
  call.position = parent.creations.load(std::memory_order_relaxed);
  call.count = parent.entered.load(std::memory_order_relaxed);
  call.chain = parent.chain.load(std::memory_order_relaxed);
  if (HasPersistent(call)) call.flags |= format::kPersisting;
  if (counts) parent.creations.store(call.position + 1, std::memory_order_release);
}

}  // namespace

void BeginCreate(Call& call, CommCreation* making) {
  Box& box = call.box;
  if (call.index == kNoCommunicator) return EnterOther(call);
  format::Communicator& parent = box.communicators[call.index];
  TakeOrdinal(call, parent, making->origin != Origin::kOfGroupAlone);
  shim::Origin origin;
  origin.parent = parent.id;
  origin.ordinal = call.position;
  origin.color = making->color;
  origin.flags = format::kCommRankUnknown | format::kCommMpi | (parent.flags & (kUncompared | kBetweenGroups));
  origin.id = IdOf(making->origin, parent.id, call.position, making->what);
  if (making->origin == Origin::kOfGroupAlone && !call.inter) IdentifyByGroup(call, parent, making, &origin);
  if (making->origin == Origin::kByMembers && making->group != MPI_GROUP_NULL && !call.inter)
    TellGroup(call, parent, making->group);
  making->made = Make(box, origin, kNoLibrary);
  EnterOther(call);
}

namespace {

// It was refused for its arguments, by this rank alone perhaps: the next one takes its ordinal.
[[gnu::cold]] void GiveBackOrdinal(const Call& call) {
  if (call.index == kNoCommunicator) return;
  std::atomic<std::uint64_t>& creations = call.box.communicators[call.index].creations;
  if (creations.load(std::memory_order_relaxed) == call.position + 1)
    creations.store(call.position, std::memory_order_release);
}

}  // namespace

void EndCreate(Call& call, const CommCreation& making, int result, const MPI_Comm* made) {
  Box& box = call.box;
  if (result != MPI_SUCCESS && !TookPart(result) && making.origin != Origin::kOfGroupAlone) GiveBackOrdinal(call);
  if (making.made != kNoCommunicator) {
    format::Communicator& entry = box.communicators[making.made];
    if (result != MPI_SUCCESS || !made) {
      SetState(entry, CommunicatorState::kFailed);
    } else if (*made == MPI_COMM_NULL) {
      SetState(entry, CommunicatorState::kDestroyed);  // this rank is not part of it
    } else {
      if (!making.pending) Fill(entry, *made);
      const auto* parent = call.index == kNoCommunicator ? nullptr : &box.communicators[call.index];
      if (parent && making.pending) {
        Put(entry.rank, parent->rank);
        Put(entry.size, parent->size);
        Put(entry.flags, parent->flags & ~std::uint32_t{format::kCommLostReceives});
        if (parent->flags & format::kCommBothGroups) Put(entry.color, parent->color);
      }
      if (parent && !making.pending) Identify(box, entry, making, HandleOf(*parent), *made);
      Bind(box, making.made, *made);
      NoteMade(call, ObjectKind::kCommunicator, Bits(*made));
      if (!making.pending) ChangeState(entry, CommunicatorState::kInitializing, CommunicatorState::kReady);
    }
  }
  Leave(call, result);
}

void EndPending(Box& box, std::uint32_t made) {
  if (made != kNoCommunicator)
    ChangeState(box.communicators[made], CommunicatorState::kInitializing, CommunicatorState::kReady);
}

void BeginWorld(Box& box) {
  char library[kLibraryText];
  const bool named = LibraryText(library);
  if (named) std::atomic_ref(box.header->mpi_library).store(AddString(box, library), std::memory_order_release);
  NoteEnvironment(box, {.mpi = named ? library : nullptr, .cuda = 0});
  const format::Identity& self = box.header->identity;
  shim::Origin world;
  world.flags = format::kCommMpi | (self.rank < 0 ? format::kCommRankUnknown : 0u);
  world.rank = static_cast<std::uint32_t>(self.rank < 0 ? 0 : self.rank);
  world.size = static_cast<std::uint32_t>(self.world_size < 0 ? 0 : self.world_size);
  world.id = IdOf(Origin::kWorld, 0, 0, 0);
  world_index = Make(box, world, kNoLibrary);
}

namespace {

void MakeForeign(Box& box, MPI_Comm comm) {
  shim::Origin origin;
  origin.flags = format::kCommMpi | format::kCommRankUnknown | kUncompared;
  origin.id = IdOf(Origin::kForeign, box.header->identity.pid, 0, Bits(comm));
  const std::uint32_t index = Make(box, origin, kNoLibrary);
  if (index == kNoCommunicator) return;
  format::Communicator& entry = box.communicators[index];
  Fill(entry, comm);
  Bind(box, index, comm);
  ChangeState(entry, CommunicatorState::kInitializing, CommunicatorState::kReady);
}

}  // namespace

void EndWorld(Box& box, int result) {
  if (world_index == kNoCommunicator) return;
  format::Communicator& world = box.communicators[world_index];
  if (result != MPI_SUCCESS) return SetState(world, CommunicatorState::kFailed);
  Fill(world, MPI_COMM_WORLD);
  // The launcher's environment may not have said it, or of the job that has started this one.
  Put(box.header->identity.rank, static_cast<std::int32_t>(world.rank));
  Put(box.header->identity.world_size, static_cast<std::int32_t>(world.size));
  Put(world.color, thread_level.load(std::memory_order_relaxed));
  Bind(box, world_index, MPI_COMM_WORLD);

  ChangeState(world, CommunicatorState::kInitializing, CommunicatorState::kReady);

  shim::Origin self;
  self.flags = format::kCommMpi;
  self.size = 1;
  self.id = IdOf(Origin::kSelf, world.id, 0, world.rank);
  self_index = Make(box, self, kNoLibrary);
  if (self_index == kNoCommunicator) return;
  Bind(box, self_index, MPI_COMM_SELF);
  ChangeState(box.communicators[self_index], CommunicatorState::kInitializing, CommunicatorState::kReady);

  MPI_Comm parent = MPI_COMM_NULL;
  auto* ask_parent = NCCLWATCH_REAL(MPI_Comm_get_parent);
  if (ask_parent && ask_parent(&parent) == MPI_SUCCESS && parent != MPI_COMM_NULL) MakeForeign(box, parent);
}

void AddForeign(const Call& call, MPI_Comm comm) {
  static constinit std::atomic<bool> said{false};
  MakeForeign(call.box, comm);
  if (call.box.header->identity.rank == 0 && !said.exchange(true))
    log::host::Warn("{}: communicators with processes of another MPI_COMM_WORLD are not compared across ranks",
                    functions::FullName(call.function));
}

void BeginFree(Call& call, MPI_Comm comm) {
  Attach(call, comm);
  if (comm == MPI_COMM_WORLD || comm == MPI_COMM_SELF) Report(call, {.wrong = Wrong::kPredefined});
  Unregister(call.box, comm);
  EnterOther(call);
}

void EndFree(Call& call, MPI_Comm comm, int result) {
  if (result == MPI_SUCCESS) NoteFreed(call, ObjectKind::kCommunicator, Bits(comm));
  if (call.index != kNoCommunicator) EndUnregister(call.box, call.index, result);
  Leave(call, result);
}

std::uint32_t Unregister(Box& box, MPI_Comm comm) {
  const std::uint32_t index = box.handles.Find(Bits(comm));
  if (index == kNoCommunicator) return index;
  SetState(box.communicators[index], CommunicatorState::kFinalizing);
  WriterLock lock(box);
  box.handles.Remove(Bits(comm));
  return index;
}

void EndUnregister(Box& box, std::uint32_t index, int result) {
  format::Communicator& entry = box.communicators[index];
  const bool refused = result != MPI_SUCCESS;  // by a callback: it lives on
  if (refused) {
    WriterLock lock(box);
    box.handles.Insert(entry.handle, index);
  }
  ChangeState(entry, CommunicatorState::kFinalizing,
              refused ? CommunicatorState::kReady : CommunicatorState::kDestroyed);
}

void NoteUnseenMessages(Box& box) {
  if (world_index == kNoCommunicator) return;
  std::atomic_ref(box.communicators[world_index].flags).fetch_or(format::kCommUnseenMessages);
}

void Label(const Call& call, const char* name) {
  if (call.index != kNoCommunicator && name) SetLabel(call.box.communicators[call.index], name);
}

std::uint32_t BeginCreateCommObject(Call& call, MPI_Comm comm, const Over& over) {
  std::uint32_t made = kNoCommunicator;
  Attach(call, comm);
  if (call.index != kNoCommunicator && !call.inter) {
    format::Communicator& parent = call.box.communicators[call.index];
    TakeOrdinal(call, parent, true);
    const std::uint32_t inherited = parent.flags & (kUncompared | format::kCommRankUnknown);
    made = Make(call.box,
                {.id = IdOf(over.origin, parent.id, call.position, 0),
                 .parent = parent.id,
                 .ordinal = call.position,
                 .color = over.color,
                 .rank = parent.rank,
                 .size = parent.size,
                 .flags = format::kCommMpi | over.flag | inherited},
                kNoLibrary);
  }
  EnterOther(call);
  return made;
}

void EndCreateCommObject(Call& call, std::uint32_t made, int result, std::uint64_t handle) {
  if (result != MPI_SUCCESS && !TookPart(result) && !call.inter) GiveBackOrdinal(call);
  if (made != kNoCommunicator) {
    format::Communicator& entry = call.box.communicators[made];
    if (result != MPI_SUCCESS) {
      SetState(entry, CommunicatorState::kFailed);
    } else {
      Put(entry.handle, handle);
      ChangeState(entry, CommunicatorState::kInitializing, CommunicatorState::kReady);
    }
  }
  Leave(call, result);
}

void BeginFreeCommObject(const Call& call) {
  if (call.index != kNoCommunicator) SetState(call.box.communicators[call.index], CommunicatorState::kFinalizing);
}

void EndFreeCommObject(Call& call, int result) {
  LeaveCollective(call, result);
  if (call.index != kNoCommunicator)
    ChangeState(call.box.communicators[call.index], CommunicatorState::kFinalizing,
                result == MPI_SUCCESS ? CommunicatorState::kDestroyed : CommunicatorState::kReady);
}

}  // namespace ncclwatch::shim::mpi
