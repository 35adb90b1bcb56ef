// Communicators: the first argument is the one that they are made from, the last where the new one goes.
#pragma once

#include "shim/mpi/communicators.h"
#include "shim/mpi/misuse.h"
#include "shim/mpi/requests.h"
#include "shim/mpi/shapes/arguments.h"

namespace ncclwatch::shim::mpi::shapes {

template <class Shape>
struct Makes {
  template <Function, class Real, class... A>
  static int Around(Call& call, Real real, MPI_Comm comm, A... more) {
    Attach(call, comm);
    Making making = Shape::From(comm, more...);
    if constexpr (requires { Shape::Check(call, more...); }) Shape::Check(call, more...);
    if (making.origin == Origin::kSplit && making.color < 0 && making.makes)
      Report(call, {.wrong = Wrong::kNegativeColor, .value = making.color});
    BeginMaking(call, &making);
    const int result = real(comm, more...);
    EndMaking(call, making, result, Last(more...));
    return result;
  }
};
struct CommDup : Makes<CommDup> {
  template <class... A>
  static Making From(MPI_Comm, A...) {
    return {.origin = Origin::kDuplicate};
  }
};
using CommDupWithInfo = CommDup;
using CartCreate = CommDup;
using GraphCreate = CommDup;
using DistGraphCreate = CommDup;
using DistGraphCreateAdjacent = CommDup;
using IntercommMerge = CommDup;
struct CommSplit : Makes<CommSplit> {
  static Making From(MPI_Comm, int color, int, MPI_Comm*) {
    return {.origin = Origin::kSplit,
            .what = static_cast<std::uint32_t>(color),
            .color = color,
            .makes = color != MPI_UNDEFINED};
  }
};
struct CommSplitType : Makes<CommSplitType> {
  static Making From(MPI_Comm, int type, int, MPI_Info, MPI_Comm*) {
    return {.origin = Origin::kByMembers, .makes = type != MPI_UNDEFINED};
  }
};
struct CartSub : Makes<CartSub> {
  template <class... A>
  static Making From(MPI_Comm, A...) {
    return {.origin = Origin::kByMembers};
  }
};
inline void CheckGroup(Call& call, MPI_Group group) {
  if (group == MPI_GROUP_NULL) Report(call, {.wrong = Wrong::kNullGroup});
}
struct CommCreate : Makes<CommCreate> {
  static Making From(MPI_Comm, MPI_Group, MPI_Comm*) { return {.origin = Origin::kByMembers}; }
  static void Check(Call& call, MPI_Group group, MPI_Comm*) { CheckGroup(call, group); }
};
struct CommCreateGroup : Makes<CommCreateGroup> {
  static Making From(MPI_Comm, MPI_Group group, int tag, MPI_Comm*) {
    return {.origin = Origin::kOfGroupAlone, .what = static_cast<std::uint32_t>(tag), .group = group};
  }
  static void Check(Call& call, MPI_Group group, int, MPI_Comm*) { CheckGroup(call, group); }
};
struct IntercommCreate : Makes<IntercommCreate> {
  template <class... A>
  static Making From(MPI_Comm, A...) {
    return {.origin = Origin::kInter};
  }
};
struct CommIdup {
  template <Function, class Real, class... A>
  static int Around(Call& call, Real real, MPI_Comm comm, A... more) {
    Attach(call, comm);
    Making making{.origin = Origin::kDuplicate, .pending = true};
    call.flags |= format::kRequest;
    BeginMaking(call, &making);
    const int result = real(comm, more...);
    bool known = false;
    if (result == MPI_SUCCESS) {
      const MPI_Request request = *Last(more...);
      OpenRequest(call, request, false, false, false);
      known = requests.Change(Bits(request), [&](Request& there) { there.makes = making.made; });
    }
    EndMaking(call, making, result, std::get<sizeof...(A) - 2>(std::tie(more...)));
    if (result == MPI_SUCCESS && !known) EndPending(call.box, making.made);
    return result;
  }
};
using CommIdupWithInfo = CommIdup;
struct CommFree {
  template <Function, class Real>
  static int Around(Call& call, Real real, MPI_Comm* comm) {
    const MPI_Comm before = *comm;
    BeginEnding(call, before);
    const int result = real(comm);
    EndEnding(call, before, result);
    return result;
  }
};
struct CommSetName {
  template <Function, class Real>
  static int Around(Call& call, Real real, MPI_Comm comm, const char* name) {
    const int result = real(comm, name);
    Attach(call, comm);
    if (result == MPI_SUCCESS) Label(call, name);
    return result;
  }
};

}  // namespace ncclwatch::shim::mpi::shapes
