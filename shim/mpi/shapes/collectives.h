// Collectives. The signature is what all ranks must agree about, so that calls that belong together have equal
// fingerprints: of a gather the elements that a rank sends, or the root receives from each. Where the amounts are each
// rank's own, Tell() says them one by one. Both take the arguments that they need from the front; what follows them (a
// request, an info) is the same for all.
#pragma once

#include "shim/mpi/arrays.h"
#include "shim/mpi/checks.h"
#include "shim/mpi/datatypes.h"
#include "shim/mpi/requests.h"
#include "shim/mpi/shapes/arguments.h"

namespace ncclwatch::shim::mpi::shapes {

template <class Shape>
struct Collective {
  template <Function function, class Real, class... A>
  static int Around(Call& call, Real real, A... arguments) {
    Shape::Describe(call, arguments...);
    if (call.inter) {
      // Who is the root, and what is sent where, differs between the two groups.
      call.root = format::kNoRank;
      call.signature = 0;
    }
    if constexpr (IsPersistent(function)) {
      SavedParts saved;
      call.saving = &saved;
      TellParts(call, arguments...);
      const int result = real(arguments...);
      if (result != MPI_SUCCESS) {
        Discard(saved);
        return Noted(call, result);
      }
      OpenRequest(call, *Last(arguments...), false, false, true);
      SaveParts(Bits(*Last(arguments...)), saved);
      return Noted(call, result);
    } else {
      if constexpr (IsNonBlocking(function)) call.flags |= format::kRequest;
      TellParts(call, arguments...);
      EnterCollective(call);
      const int result = real(arguments...);
      if constexpr (IsNonBlocking(function))
        if (result == MPI_SUCCESS) OpenRequest(call, *Last(arguments...), false, false, false);
      LeaveCollective(call, result);
      return result;
    }
  }

 private:
  template <class... A>
  static void TellParts(Call& call, A... arguments) {
    if constexpr (requires { Shape::Tell(call, arguments...); })
      if (!call.inter && call.rank >= 0 && (call.flags & format::kOneRank) == 0) Shape::Tell(call, arguments...);
  }

 protected:
  // One buffer of the call, which its amount is of.
  static void DescribeElements(Call& call, const void* buffer, auto count, MPI_Datatype type) {
    CheckCount(call, count);
    Amount(call, static_cast<std::uint64_t>(count), type);
    CheckBuffer(call, buffer, call.bytes, type);
  }
  // What a rank sends is what each rank has room for; else this call differs from all others.
  static void Compare(Call& call, std::uint32_t sent) {
    if (sent && call.signature && sent != call.signature)
      call.signature = static_cast<std::uint32_t>(format::Mix(sent, call.signature));
  }
};

struct Barrier : Collective<Barrier> {
  template <class... A>
  static void Describe(Call& call, MPI_Comm comm, A...) {
    Attach(call, comm);
  }
};
struct Bcast : Collective<Bcast> {
  template <class... A>
  static void Describe(Call& call, void* buffer, auto count, MPI_Datatype type, int root, MPI_Comm comm, A...) {
    Attach(call, comm);
    DescribeElements(call, buffer, count, type);
    call.root = root;
    CheckRoot(call);
  }
};
struct Reduce : Collective<Reduce> {
  template <class... A>
  static void Describe(Call& call, const void* from, void* into, auto count, MPI_Datatype type, MPI_Op op, int root,
                       MPI_Comm comm, A...) {
    Attach(call, comm);
    CheckCount(call, count);
    Amount(call, static_cast<std::uint64_t>(count), type);
    call.reduction = ReductionOf(op);
    CheckOperator(call, op);
    call.root = root;
    CheckRoot(call);
    CheckBuffer(call, from, call.bytes, type);
    if (call.rank != root) return;
    CheckBuffer(call, into, call.bytes, type);
    CheckApart(call, {from, call.bytes, type}, {into, call.bytes, type});
  }
};
struct Allreduce : Collective<Allreduce> {
  template <class... A>
  static void Describe(Call& call, const void* from, void* into, auto count, MPI_Datatype type, MPI_Op op,
                       MPI_Comm comm, A...) {
    Attach(call, comm);
    CheckCount(call, count);
    Amount(call, static_cast<std::uint64_t>(count), type);
    call.reduction = ReductionOf(op);
    CheckOperator(call, op);
    CheckBuffer(call, from, call.bytes, type);
    CheckBuffer(call, into, call.bytes, type);
    CheckApart(call, {from, call.bytes, type}, {into, call.bytes, type});
  }
};
struct ReduceScatter : Collective<ReduceScatter> {
  template <class Counts, class... A>
  static void Describe(Call& call, const void*, void*, Counts counts, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                       A...) {
    Attach(call, comm);
    AmountOfAll(call, counts, type);
    call.reduction = ReductionOf(op);
    CheckOperator(call, op);
  }
};
struct Gather : Collective<Gather> {
  template <class... A>
  static void Describe(Call& call, const void* from, auto sent, MPI_Datatype sent_type, void* into, auto received,
                       MPI_Datatype received_type, int root, MPI_Comm comm, A...) {
    Attach(call, comm);
    call.root = root;
    CheckRoot(call);
    if (call.rank == root)
      DescribeElements(call, into, received, received_type);
    else
      DescribeElements(call, from, sent, sent_type);
  }
};
struct Scatter : Collective<Scatter> {
  template <class... A>
  static void Describe(Call& call, const void* from, auto sent, MPI_Datatype sent_type, void* into, auto received,
                       MPI_Datatype received_type, int root, MPI_Comm comm, A...) {
    Attach(call, comm);
    call.root = root;
    CheckRoot(call);
    if (call.rank == root)
      DescribeElements(call, from, sent, sent_type);
    else
      DescribeElements(call, into, received, received_type);
  }
};
struct Gatherv : Collective<Gatherv> {
  template <class Counts, class Places, class... A>
  static void Describe(Call& call, const void*, auto sent, MPI_Datatype sent_type, void*, Counts, Places, MPI_Datatype,
                       int root, MPI_Comm comm, A...) {
    Attach(call, comm);
    call.root = root;
    CheckRoot(call);
    if (call.rank != root) CheckCount(call, sent);
    AmountOfOne(call, static_cast<std::uint64_t>(sent), sent_type);
  }
  template <class Counts, class Places, class... A>
  static void Tell(Call& call, const void* from, auto sent, MPI_Datatype sent_type, void*, Counts counts, Places,
                   MPI_Datatype received_type, int root, MPI_Comm, A...) {
    const std::uint32_t ranks = call.rank == root ? RanksOf(call) : 0;
    Parts parts(call, 1, ranks);
    AddOne(parts, from, sent, sent_type);
    AddEach(parts, ranks, counts, received_type);
    parts.Done();
  }
};
struct Scatterv : Collective<Scatterv> {
  template <class Counts, class Places, class... A>
  static void Describe(Call& call, const void*, Counts, Places, MPI_Datatype, void*, auto received,
                       MPI_Datatype received_type, int root, MPI_Comm comm, A...) {
    Attach(call, comm);
    call.root = root;
    CheckRoot(call);
    if (call.rank != root) CheckCount(call, received);
    AmountOfOne(call, static_cast<std::uint64_t>(received), received_type);
  }
  template <class Counts, class Places, class... A>
  static void Tell(Call& call, const void*, Counts counts, Places, MPI_Datatype sent_type, void* to, auto received,
                   MPI_Datatype received_type, int root, MPI_Comm, A...) {
    const std::uint32_t ranks = call.rank == root ? RanksOf(call) : 0;
    Parts parts(call, ranks, 1);
    AddEach(parts, ranks, counts, sent_type);
    AddOne(parts, to, received, received_type);
    parts.Done();
  }
};
struct Allgather : Collective<Allgather> {
  template <class... A>
  static void Describe(Call& call, const void* from, auto sent, MPI_Datatype sent_type, void* into, auto received,
                       MPI_Datatype received_type, MPI_Comm comm, A...) {
    Attach(call, comm);
    CheckCount(call, received);
    if (from != MPI_IN_PLACE) CheckCount(call, sent);
    Amount(call, static_cast<std::uint64_t>(received), received_type);
    CheckBuffer(call, into, call.bytes, received_type);
    if (from != MPI_IN_PLACE && !call.inter) Compare(call, SignatureOf(static_cast<std::uint64_t>(sent), sent_type));
  }
};
using Alltoall = Allgather;
struct Allgatherv : Collective<Allgatherv> {
  template <class Counts, class Places, class... A>
  static void Describe(Call& call, const void* from, auto sent, MPI_Datatype sent_type, void*, Counts counts, Places,
                       MPI_Datatype received_type, MPI_Comm comm, A...) {
    Attach(call, comm);
    AmountOfAll(call, counts, received_type);
    if (from == MPI_IN_PLACE || call.inter || call.rank < 0) return;
    const std::uint32_t own = SignatureOf(static_cast<std::uint64_t>(counts[call.rank]), received_type);
    const std::uint32_t mine = SignatureOf(static_cast<std::uint64_t>(sent), sent_type);
    if (own && own != mine) Compare(call, mine);
  }
};
struct Alltoallv : Collective<Alltoallv> {
  template <class Counts, class Places, class... A>
  static void Describe(Call& call, const void*, Counts, Places, MPI_Datatype sent_type, void*, Counts, Places,
                       MPI_Datatype, MPI_Comm comm, A...) {
    Attach(call, comm);
    AmountOfOne(call, 0, sent_type);
  }
  template <class Counts, class Places, class... A>
  static void Tell(Call& call, const void* from, Counts sent, Places, MPI_Datatype sent_type, void*, Counts received,
                   Places, MPI_Datatype received_type, MPI_Comm, A...) {
    if (from != MPI_IN_PLACE) TellAll(call, sent, sent_type, received, received_type);
  }
  template <class Counts, class Type>
  static void TellAll(Call& call, Counts sent, Type sent_type, Counts received, Type received_type) {
    const std::uint32_t ranks = RanksOf(call);
    Parts parts(call, ranks, ranks);
    const Total total = AddEach(parts, ranks, sent, sent_type);
    AddEach(parts, ranks, received, received_type);
    parts.Done();
    call.count = total.count;
    call.bytes = total.bytes;
  }
};
struct Alltoallw : Collective<Alltoallw> {
  template <class Counts, class Places, class Types, class... A>
  static void Describe(Call& call, const void*, Counts, Places, Types, void*, Counts, Places, Types, MPI_Comm comm,
                       A...) {
    Attach(call, comm);
  }
  template <class Counts, class Places, class Types, class... A>
  static void Tell(Call& call, const void* from, Counts sent, Places, Types sent_types, void*, Counts received, Places,
                   Types received_types, MPI_Comm, A...) {
    if (from != MPI_IN_PLACE && sent_types && received_types)
      Alltoallv::TellAll(call, sent, sent_types, received, received_types);
  }
};

// Neighbours need not agree with anybody else.
struct NeighborAllgather : Collective<NeighborAllgather> {
  template <class... A>
  static void Describe(Call& call, const void*, auto sent, MPI_Datatype sent_type, void*, auto, MPI_Datatype,
                       MPI_Comm comm, A...) {
    Attach(call, comm);
    AmountOfOne(call, static_cast<std::uint64_t>(sent), sent_type);
  }
};
using NeighborAlltoall = NeighborAllgather;
struct NeighborAllgatherv : Collective<NeighborAllgatherv> {
  template <class Counts, class Places, class... A>
  static void Describe(Call& call, const void*, auto sent, MPI_Datatype sent_type, void*, Counts, Places, MPI_Datatype,
                       MPI_Comm comm, A...) {
    Attach(call, comm);
    AmountOfOne(call, static_cast<std::uint64_t>(sent), sent_type);
  }
};
struct NeighborAlltoallv : Collective<NeighborAlltoallv> {
  template <class Counts, class Places, class... A>
  static void Describe(Call& call, const void*, Counts, Places, MPI_Datatype sent_type, void*, Counts, Places,
                       MPI_Datatype, MPI_Comm comm, A...) {
    Attach(call, comm);
    AmountOfOne(call, 0, sent_type);
  }
};
struct NeighborAlltoallw : Collective<NeighborAlltoallw> {
  template <class Counts, class Places, class Types, class... A>
  static void Describe(Call& call, const void*, Counts, Places, Types, void*, Counts, Places, Types, MPI_Comm comm,
                       A...) {
    Attach(call, comm);
  }
};

}  // namespace ncclwatch::shim::mpi::shapes
