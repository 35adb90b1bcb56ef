// MPI's communicators: entries of the black box's table, made before the creating call, bound to their handles after
// it, and ended. Their identity is equal on every rank, and no message is sent for it.
#pragma once

#include <cstdint>

#include "shim/mpi/core/abi.h"
#include "shim/mpi/core/call.h"

namespace ncclwatch::shim::mpi {

// How a communicator comes from another one. Numbers go into identities.
enum class Origin : std::uint64_t {
  kWorld = 16,
  kSelf = 17,
  kDuplicate = 18,
  kSplit = 19,         // what: the colour
  kByMembers = 20,     // the members are known once it is made: what is then the first one's rank in the parent
  kOfGroupAlone = 22,  // only its members make the call; what: the tag, and the members
  kInter = 23,         // what: both groups, in ranks of MPI_COMM_WORLD
  kWindow = 24,
  kFile = 25,
  kForeign = 26,
};

struct CommCreation {
  Origin origin{};
  std::uint64_t what = 0;
  std::int32_t color = 0;
  bool pending = false;  // MPI_Comm_idup: it may not be asked anything yet; its rank and size are the parent's
  MPI_Group group = MPI_GROUP_NULL;  // kOfGroupAlone: its members
  bool identified = false;           // ... which could be asked for before the call
  std::uint32_t made = format::kNoCommunicator;
};

std::uint64_t IdOf(Origin origin, std::uint64_t parent, std::uint64_t ordinal, std::uint64_t what);

// Before the creating call on the communicator that the call is attached to.
void BeginCreate(Call& call, CommCreation* making);
// After it. `made` is only read if it succeeded.
void EndCreate(Call& call, const CommCreation& making, int result, const MPI_Comm* made);
// A pending one is whole, or nobody will say when it is.
void EndPending(Box& box, std::uint32_t made);

// An object over all ranks of a communicator that is none itself, a window or a file: its entry, before and after the
// call that makes it. kNoCommunicator: it cannot be compared across ranks.
struct Over {
  Origin origin;
  std::uint32_t flag;  // format::kComm...
  std::int32_t color = 0;
};
std::uint32_t BeginCreateCommObject(Call& call, MPI_Comm comm, const Over& over);
void EndCreateCommObject(Call& call, std::uint32_t made, int result, std::uint64_t handle);
// Before and after the call on its entry that ends it, a collective.
void BeginFreeCommObject(const Call& call);
void EndFreeCommObject(Call& call, int result);

// MPI_COMM_WORLD and MPI_COMM_SELF: before and after MPI_Init.
void BeginWorld(Box& box);
void EndWorld(Box& box, int result);

// After a call that has made one with processes of another MPI_COMM_WORLD, whose black boxes are another job's.
void AddForeign(const Call& call, MPI_Comm comm);

// MPI_Comm_free, MPI_Comm_disconnect: before and after.
void BeginFree(Call& call, MPI_Comm comm);
void EndFree(Call& call, MPI_Comm comm, int result);

// The same in a callback of MPI, of which nothing is recorded: its handle may be another one's next.
std::uint32_t Unregister(Box& box, MPI_Comm comm);  // its entry; kNoCommunicator: it is not known
void EndUnregister(Box& box, std::uint32_t index, int result);
// Messages that no record tells of: of callbacks, partitioned ones.
void NoteUnseenMessages(Box& box);

void Label(const Call& call, const char* name);

}  // namespace ncclwatch::shim::mpi
