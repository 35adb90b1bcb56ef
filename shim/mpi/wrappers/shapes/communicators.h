// Communicators: the first argument is the one that they are made from, the last where the new one goes.
#pragma once

#include "shim/mpi/communicators/communicators.h"
#include "shim/mpi/communicators/topologies.h"
#include "shim/mpi/core/misuse.h"
#include "shim/mpi/objects/checks.h"
#include "shim/mpi/record/collective_arguments.h"
#include "shim/mpi/requests/requests.h"
#include "shim/mpi/wrappers/shapes/arguments.h"

namespace ncclwatch::shim::mpi::shapes {

template <class Shape>
struct Makes {
  template <Function, class Real, class... A>
  static int Intercept(Call& call, Real real, MPI_Comm comm, A... more) {
    Attach(call, comm);
    CommCreation making = Shape::From(comm, more...);
    if constexpr (requires { Shape::Check(call, more...); }) Shape::Check(call, more...);
    if (making.origin == Origin::kSplit && making.color < 0 && making.color != MPI_UNDEFINED)
      Report(call, {.wrong = Wrong::kNegativeColor, .value = making.color});
    RecordArguments(call, comm, more...);
    BeginCreate(call, &making);
    const int result = real(comm, more...);
    EndCreate(call, making, result, Last(more...));
    return result;
  }

 private:
  template <class... A>
  static void RecordArguments(Call& call, MPI_Comm comm, A... more) {
    if constexpr (requires(CollectiveArguments & arguments) { Shape::AddArguments(call, arguments, comm, more...); }) {
      if (call.index == format::kNoCommunicator || call.inter) return;
      CollectiveArguments arguments;
      Shape::AddArguments(call, arguments, comm, more...);
      if (arguments.size() != 0) arguments.Write(call);
    }
  }
};
struct CommDup : Makes<CommDup> {
  template <class... A>
  static CommCreation From(MPI_Comm, A...) {
    return {.origin = Origin::kDuplicate};
  }
};
using CommDupWithInfo = CommDup;
using IntercommMerge = CommDup;
struct Duplicates {
  template <class... A>
  static CommCreation From(MPI_Comm, A...) {
    return {.origin = Origin::kDuplicate};
  }
};
struct CartCreate : Makes<CartCreate>, Duplicates {
  static void Check(Call& call, int dimensions, const int* dims, const int*, int, MPI_Comm*) {
    CheckGrid(call, dimensions, dims);
  }
  static void AddArguments(const Call&, CollectiveArguments& arguments, MPI_Comm, int dimensions, const int* dims,
                           const int* periods, int reorder, MPI_Comm*) {
    arguments.Add(Argument::kDimensions, dimensions);
    arguments.AddAll(Argument::kDims, dims, dimensions);
    arguments.AddAll(Argument::kPeriods, periods, dimensions, true);
    arguments.Add(Argument::kReorder, reorder != 0);
  }
};
struct GraphCreate : Makes<GraphCreate>, Duplicates {
  static void Check(Call& call, int nodes, const int* index, const int* edges, int, MPI_Comm*) {
    CheckGraph(call, nodes, index, edges);
  }
  static void AddArguments(const Call& call, CollectiveArguments& arguments, MPI_Comm, int nodes, const int* index,
                           const int* edges, int reorder, MPI_Comm*) {
    arguments.Add(Argument::kNodes, nodes);
    // MPI looks at the number of nodes first, and not at what it refuses.
    const int usable = call.misuse ? 0 : nodes;
    arguments.AddAll(Argument::kIndex, index, usable);
    arguments.AddAll(Argument::kEdges, edges, EdgesOf(usable, index));
    arguments.Add(Argument::kReorder, reorder != 0);
  }
};
struct DistGraphCreate : Makes<DistGraphCreate>, Duplicates {
  static void Check(Call& call, int number, const int* sources, const int* degrees, const int* destinations, const int*,
                    MPI_Info, int, MPI_Comm*) {
    CheckDistributed(call, number, sources, degrees, destinations);
  }
  static void AddArguments(const Call&, CollectiveArguments& arguments, MPI_Comm, int, const int*, const int*,
                           const int*, const int*, MPI_Info, int reorder, MPI_Comm*) {
    arguments.Add(Argument::kReorder, reorder != 0);
  }
};
struct DistGraphCreateAdjacent : Makes<DistGraphCreateAdjacent>, Duplicates {
  static void Check(Call& call, int in, const int* sources, const int*, int out, const int* destinations, const int*,
                    MPI_Info, int, MPI_Comm*) {
    CheckNodes(call, in, sources);
    CheckNodes(call, out, destinations);
  }
  static void AddArguments(const Call&, CollectiveArguments& arguments, MPI_Comm, int, const int*, const int*, int,
                           const int*, const int*, MPI_Info, int reorder, MPI_Comm*) {
    arguments.Add(Argument::kReorder, reorder != 0);
  }
};
struct CommSplit : Makes<CommSplit> {
  static CommCreation From(MPI_Comm, int color, int, MPI_Comm*) {
    return {.origin = Origin::kSplit, .what = static_cast<std::uint32_t>(color), .color = color};
  }
};
struct CommSplitType : Makes<CommSplitType> {
  template <class... A>
  static CommCreation From(MPI_Comm, A...) {
    return {.origin = Origin::kByMembers};
  }
  static void AddArguments(const Call&, CollectiveArguments& arguments, MPI_Comm, int type, int, MPI_Info, MPI_Comm*) {
    if (type != MPI_UNDEFINED) arguments.Add(Argument::kSplitType, type);
  }
};
struct CartSub : Makes<CartSub> {
  template <class... A>
  static CommCreation From(MPI_Comm, A...) {
    return {.origin = Origin::kByMembers};
  }
  static void AddArguments(const Call&, CollectiveArguments& arguments, MPI_Comm comm, const int* remain, MPI_Comm*) {
    arguments.AddAll(Argument::kRemainDims, remain, DimensionsOf(comm), true);
  }
};
inline void CheckGroup(Call& call, MPI_Group group) {
  if (group == MPI_GROUP_NULL) Report(call, {.wrong = Wrong::kNullGroup});
}
struct CommCreate : Makes<CommCreate> {
  static CommCreation From(MPI_Comm, MPI_Group group, MPI_Comm*) {
    return {.origin = Origin::kByMembers, .group = group};
  }
  static void Check(Call& call, MPI_Group group, MPI_Comm*) { CheckGroup(call, group); }
};
struct CommCreateGroup : Makes<CommCreateGroup> {
  static CommCreation From(MPI_Comm, MPI_Group group, int tag, MPI_Comm*) {
    return {.origin = Origin::kOfGroupAlone, .what = static_cast<std::uint32_t>(tag), .group = group};
  }
  static void Check(Call& call, MPI_Group group, int, MPI_Comm*) { CheckGroup(call, group); }
};
struct IntercommCreate : Makes<IntercommCreate> {
  template <class... A>
  static CommCreation From(MPI_Comm, A...) {
    return {.origin = Origin::kInter};
  }
  static void Check(Call& call, int leader, MPI_Comm, int, int, MPI_Comm*) {
    if (!InRange(call, leader)) Report(call, {.wrong = Wrong::kRankOutOfRange, .value = leader, .limit = call.size});
  }
  static void AddArguments(Call& call, CollectiveArguments& arguments, MPI_Comm, int leader, MPI_Comm peers, int other,
                           int tag, MPI_Comm*) {
    arguments.Add(Argument::kLocalLeader, leader);
    arguments.Add(Argument::kTag, tag);
    if (call.rank == leader) TellLeaders(call, arguments, peers, other);
  }
};
struct CommIdup {
  template <Function, class Real, class... A>
  static int Intercept(Call& call, Real real, MPI_Comm comm, A... more) {
    Attach(call, comm);
    CommCreation making{.origin = Origin::kDuplicate, .pending = true};
    call.flags |= format::kRequest;
    BeginCreate(call, &making);
    const int result = real(comm, more...);
    bool known = false;
    if (result == MPI_SUCCESS) {
      const MPI_Request request = *Last(more...);
      OpenRequest(call, request, false, false, false);
      known = requests.Change(Bits(request), [&](Request& there) { there.makes = making.made; });
    }
    EndCreate(call, making, result, std::get<sizeof...(A) - 2>(std::tie(more...)));
    if (result == MPI_SUCCESS && !known) EndPending(call.box, making.made);
    return result;
  }
};
using CommIdupWithInfo = CommIdup;
// MPI_Comm_spawn, MPI_Comm_accept and their like.
struct Connects {
  template <Function function, class Real, class... A>
  static int Intercept(Call& call, Real real, A... arguments) {
    constexpr bool kSpawns = functions::FullName(function).starts_with("MPI_Comm_spawn");
    EnterOther(call);
    const int result = real(arguments...);
    MPI_Comm* const made = std::get<sizeof...(A) - (kSpawns ? 2 : 1)>(std::tie(arguments...));
    if (result == MPI_SUCCESS && made && *made != MPI_COMM_NULL) AddForeign(call, *made);
    Leave(call, result);
    return result;
  }
};
struct CommFree {
  template <Function, class Real>
  static int Intercept(Call& call, Real real, MPI_Comm* comm) {
    const MPI_Comm before = Given(comm, MPI_COMM_NULL);
    BeginFree(call, before);
    const int result = real(comm);
    EndFree(call, before, result);
    return result;
  }
};
struct CommSetName {
  template <Function, class Real>
  static int Intercept(Call& call, Real real, MPI_Comm comm, const char* name) {
    const int result = real(comm, name);
    Attach(call, comm);
    if (result == MPI_SUCCESS) Label(call, name);
    return result;
  }
};

}  // namespace ncclwatch::shim::mpi::shapes
