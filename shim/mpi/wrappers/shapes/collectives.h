// Collectives. The signature is what all ranks must agree about, so that calls that belong together have equal
// fingerprints: of a gather the elements that a rank sends, or the root receives from each. Where the amounts are each
// rank's own, Tell() says them one by one. Both take the arguments that they need from the front; what follows them (a
// request, an info) is the same for all.
#pragma once

#include "shim/mpi/objects/checks.h"
#include "shim/mpi/objects/datatypes.h"
#include "shim/mpi/record/arrays.h"
#include "shim/mpi/record/neighbours.h"
#include "shim/mpi/record/persistent.h"
#include "shim/mpi/requests/buffers.h"
#include "shim/mpi/requests/footprint.h"
#include "shim/mpi/requests/requests.h"
#include "shim/mpi/wrappers/shapes/arguments.h"

namespace ncclwatch::shim::mpi::shapes {

template <class Shape>
struct Collective {
  template <Function function, class Real, class... A>
  static int Intercept(Call& call, Real real, A... arguments) {
    Shape::Describe(call, arguments...);
    if (call.inter) {
      // Who is the root, and what is sent where, differs between the two groups: only the operation is compared.
      call.root = format::kNoRank;
      call.signature = 0;
      call.count = 0;
      call.dtype = format::kNoType;
      call.reduction = format::kNoReduction;
    }
    if constexpr (IsPersistent(function)) {
      SavedParts saved;
      call.saving = &saved;
      TellParts(call, arguments...);
      Footprint touched(call, false);
      TouchBuffers(call, touched, arguments...);
      const SavedBuffers kept = PrepareBuffers(call, touched.of(Use::kRead), touched.all(Use::kRead),
                                               touched.of(Use::kWritten), touched.all(Use::kWritten));
      const int result = Pass(real, kept.moved(), arguments...);
      if (result != MPI_SUCCESS) {
        Discard(saved);
        Discard(kept);
        return Noted(call, result);
      }
      NumberPersistent(call);
      OpenRequest(call, *Last(arguments...), false, false, true);
      SaveParts(Bits(*Last(arguments...)), saved);
      KeepBuffers(*Last(arguments...), kept);
      return Noted(call, result);
    } else if constexpr (IsNonBlocking(function)) {
      Footprint touched(call);
      TouchBuffers(call, touched, arguments...);
      call.flags |= format::kRequest;
      TellParts(call, arguments...);
      EnterCollective(call);
      const bool shadowed = call.box.watches_buffers && touched.all(Use::kWritten);
      const std::intptr_t moved = shadowed ? ShadowReceived(call, touched.of(Use::kWritten)) : 0;
      const int result = Pass(real, moved, arguments...);
      if (result == MPI_SUCCESS) {
        touched.Open();
        if (call.box.watches_buffers && touched.all(Use::kRead)) WatchSent(call, touched.of(Use::kRead));
        OpenRequest(call, *Last(arguments...), false, false, false);
      } else if (moved != 0) {
        DropBuffers(call.slot);
      }
      LeaveCollective(call, result);
      return result;
    } else {
      if constexpr (requires { Shape::kInto; })
        if (!open_buffers.none()) [[unlikely]]
          CheckBuffers(call, arguments...);
      TellParts(call, arguments...);
      EnterCollective(call);
      const int result = real(arguments...);
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
  // Between two groups it is told by others what is received; a refused call touches nothing.
  template <class... A>
  static void TouchBuffers(Call& call, Footprint& touched, A... arguments) {
    if constexpr (requires { Shape::Touch(call, touched, arguments...); })
      if (!call.inter && call.rank >= 0 && call.size > 0 && !call.misuse) Shape::Touch(call, touched, arguments...);
  }
  template <class... A>
  [[gnu::noinline]] static void CheckBuffers(Call& call, A... arguments) {
    Footprint touched(call);
    TouchBuffers(call, touched, arguments...);
  }
  // What is received goes elsewhere.
  template <class Real, class... A>
  static int Pass(Real real, std::intptr_t moved, A... arguments) {
    if constexpr (requires { Shape::kInto; }) {
      auto& into = std::get<Shape::kInto>(std::tie(arguments...));
      into = Moved(into, moved);
    }
    return real(arguments...);
  }

 protected:
  // One buffer of the call, which its amount is of.
  static void DescribeElements(Call& call, const void* buffer, auto count, MPI_Datatype type) {
    CheckCount(call, count);
    Amount(call, static_cast<std::uint64_t>(count), type);
    CheckBuffer(call, buffer, call.bytes, type);
  }
  // No place may be received into twice. Of parts that lie in the order of their ranks, as most do. `from` is what the
  // call sends: nothing is received into the own part where MPI_IN_PLACE says that it is there.
  template <class Counts, class Places>
  static void CheckPartsApart(Call& call, const void* from, Counts counts, Places places, MPI_Datatype type) {
    if (!counts || !places || !IsPredefined(type)) return;
    const auto received = [&](std::uint32_t rank) {
      return counts[rank] > 0 && !(from == MPI_IN_PLACE && static_cast<std::int32_t>(rank) == call.rank);
    };
    for (std::uint32_t i = 1; i < call.size; ++i) {
      const bool both = received(i - 1) && received(i) && places[i - 1] <= places[i];
      if (both && places[i - 1] + counts[i - 1] > places[i])
        return Report(call, {.wrong = Wrong::kPartsOverlap, .value = i - 1, .limit = i});
    }
  }
  // What a rank sends lies apart from what it has room for, of which there is a part for each rank; or the other way
  // round. `whole` holds all the parts, `part` one of them.
  static void CheckPartApart(Call& call, const void* part, auto count, MPI_Datatype type, const void* whole,
                             MPI_Datatype whole_type) {
    if (part == MPI_IN_PLACE || whole == MPI_IN_PLACE || count <= 0 || call.bytes == 0) return;
    CheckApart(call, {part, call.bytes, type}, {whole, call.bytes * call.size, whole_type});
  }
  // `other` is this rank's own end of what it sends to itself, MPI_IN_PLACE if there is none.
  static void CheckOwnPart(Call& call, const void* other, auto count, MPI_Datatype type, auto sent,
                           MPI_Datatype sent_type, auto received, MPI_Datatype received_type) {
    if (other == MPI_IN_PLACE || call.inter) return;
    if (!other) [[unlikely]]
      CheckBuffer(call, other, Unsigned(count), type);
    if ((sent == received && sent_type == received_type) || call.rank < 0) [[likely]]
      return;
    CheckOwnPartAlike(call, Unsigned(sent), sent_type, Unsigned(received), received_type);
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
  template <class... A>
  static void Touch(const Call& call, Footprint& touched, void* buffer, auto count, MPI_Datatype type, int root,
                    MPI_Comm, A...) {
    touched.Add(call.rank == root ? Use::kRead : Use::kWritten, buffer, Unsigned(count), type);
  }
  static constexpr std::size_t kInto = 0;
};
struct Reduce : Collective<Reduce> {
  template <class... A>
  static void Describe(Call& call, const void* from, void* into, auto count, MPI_Datatype type, MPI_Op op, int root,
                       MPI_Comm comm, A...) {
    Attach(call, comm);
    CheckCount(call, count);
    Amount(call, static_cast<std::uint64_t>(count), type);
    call.reduction = ReductionOf(op);
    CheckReduction(call, op);
    call.root = root;
    CheckRoot(call);
    if (from != MPI_IN_PLACE || call.rank != root) CheckBuffer(call, from, call.bytes, type);
    if (call.rank != root) return;
    CheckBuffer(call, into, call.bytes, type);
    CheckApart(call, {from, call.bytes, type}, {into, call.bytes, type});
  }
  template <class... A>
  static void Touch(const Call& call, Footprint& touched, const void* from, void* into, auto count, MPI_Datatype type,
                    MPI_Op, int root, MPI_Comm, A...) {
    touched.Add(Use::kRead, from, Unsigned(count), type);
    if (call.rank == root) touched.Add(Use::kWritten, into, Unsigned(count), type);
  }
  static constexpr std::size_t kInto = 1;
};
// Scan, Exscan and Reduce_scatter_block too.
struct Allreduce : Collective<Allreduce> {
  template <class... A>
  static void Describe(Call& call, const void* from, void* into, auto count, MPI_Datatype type, MPI_Op op,
                       MPI_Comm comm, A...) {
    Attach(call, comm);
    CheckCount(call, count);
    Amount(call, static_cast<std::uint64_t>(count), type);
    call.reduction = ReductionOf(op);
    CheckReduction(call, op);
    if (from != MPI_IN_PLACE) CheckBuffer(call, from, call.bytes, type);
    if (ReceivesNothing(call)) return;
    CheckBuffer(call, into, call.bytes, type);
    CheckApart(call, {from, call.bytes, type}, {into, call.bytes, type});
  }
  static bool ReceivesNothing(const Call& call) {
    return call.rank == 0 && functions::FullName(call.function).find("xscan") != std::string_view::npos;
  }
  template <class... A>
  static void Touch(const Call& call, Footprint& touched, const void* from, void* into, auto count, MPI_Datatype type,
                    MPI_Op, MPI_Comm, A...) {
    const std::string_view name = functions::FullName(call.function);
    const std::uint64_t one = Unsigned(count), all = name.find("block") == name.npos ? one : one * call.size;
    touched.Add(Use::kRead, from, all, type);
    if (ReceivesNothing(call)) return;
    touched.Add(Use::kWritten, into, from == MPI_IN_PLACE ? all : one, type);
  }
  static constexpr std::size_t kInto = 1;
};
struct ReduceScatter : Collective<ReduceScatter> {
  template <class Counts, class... A>
  static void Describe(Call& call, const void*, void*, Counts counts, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                       A...) {
    Attach(call, comm);
    AmountOfAll(call, counts, type);
    call.reduction = ReductionOf(op);
    CheckReduction(call, op);
  }
  template <class Counts, class... A>
  static void Touch(const Call& call, Footprint& touched, const void* from, void* into, Counts counts,
                    MPI_Datatype type, MPI_Op, MPI_Comm, A...) {
    std::uint64_t all = 0;
    for (std::uint32_t i = 0; counts && i < call.size; ++i) all += Unsigned(counts[i]);
    touched.Add(Use::kRead, from, all, type);
    if (counts) touched.Add(Use::kWritten, into, from == MPI_IN_PLACE ? all : Unsigned(counts[call.rank]), type);
  }
  static constexpr std::size_t kInto = 1;
};
struct Gather : Collective<Gather> {
  template <class... A>
  static void Describe(Call& call, const void* from, auto sent, MPI_Datatype sent_type, void* into, auto received,
                       MPI_Datatype received_type, int root, MPI_Comm comm, A...) {
    Attach(call, comm);
    call.root = root;
    CheckRoot(call);
    if (call.rank != root) return DescribeElements(call, from, sent, sent_type);
    DescribeElements(call, into, received, received_type);
    CheckOwnPart(call, from, sent, sent_type, sent, sent_type, received, received_type);
    CheckPartApart(call, from, sent, sent_type, into, received_type);
  }
  template <class... A>
  static void Touch(const Call& call, Footprint& touched, const void* from, auto sent, MPI_Datatype sent_type,
                    void* into, auto received, MPI_Datatype received_type, int root, MPI_Comm, A...) {
    touched.Add(Use::kRead, from, Unsigned(sent), sent_type);
    if (call.rank == root) touched.Add(Use::kWritten, into, Unsigned(received) * call.size, received_type);
  }
  static constexpr std::size_t kInto = 3;
};
struct Scatter : Collective<Scatter> {
  template <class... A>
  static void Describe(Call& call, const void* from, auto sent, MPI_Datatype sent_type, void* into, auto received,
                       MPI_Datatype received_type, int root, MPI_Comm comm, A...) {
    Attach(call, comm);
    call.root = root;
    CheckRoot(call);
    if (call.rank != root) return DescribeElements(call, into, received, received_type);
    DescribeElements(call, from, sent, sent_type);
    CheckOwnPart(call, into, received, received_type, sent, sent_type, received, received_type);
    CheckPartApart(call, into, received, received_type, from, sent_type);
  }
  template <class... A>
  static void Touch(const Call& call, Footprint& touched, const void* from, auto sent, MPI_Datatype sent_type,
                    void* into, auto received, MPI_Datatype received_type, int root, MPI_Comm, A...) {
    if (call.rank == root) touched.Add(Use::kRead, from, Unsigned(sent) * call.size, sent_type);
    touched.Add(Use::kWritten, into, Unsigned(received), received_type);
  }
  static constexpr std::size_t kInto = 3;
};
struct Gatherv : Collective<Gatherv> {
  template <class Counts, class Places, class... A>
  static void Describe(Call& call, const void* from, auto sent, MPI_Datatype sent_type, void*, Counts, Places,
                       MPI_Datatype received_type, int root, MPI_Comm comm, A...) {
    Attach(call, comm);
    call.root = root;
    CheckRoot(call);
    // Nobody looks at what would be sent.
    if (call.rank == root && from == MPI_IN_PLACE) return AmountOfOne(call, 0, received_type);
    if (call.rank != root) CheckCount(call, sent);
    AmountOfOne(call, static_cast<std::uint64_t>(sent), sent_type);
  }
  template <class Counts, class Places, class... A>
  static void Tell(Call& call, const void* from, auto sent, MPI_Datatype sent_type, void*, Counts counts, Places places,
                   MPI_Datatype received_type, int root, MPI_Comm, A...) {
    const std::uint32_t ranks = call.rank == root ? RanksOf(call) : 0;
    if (call.rank == root) CheckPartsApart(call, from, counts, places, received_type);
    Parts parts(call, 1, ranks);
    AddOne(parts, from, sent, sent_type);
    const Total total = AddEach(parts, ranks, counts, received_type);
    parts.Done();
    CheckCount(call, total.least);
  }
  template <class Counts, class Places, class... A>
  static void Touch(const Call& call, Footprint& touched, const void* from, auto sent, MPI_Datatype sent_type,
                    void* into, Counts counts, Places places, MPI_Datatype received_type, int root, MPI_Comm, A...) {
    touched.Add(Use::kRead, from, Unsigned(sent), sent_type);
    if (call.rank == root) touched.AddEach(Use::kWritten, into, call.size, counts, places, received_type);
  }
  static constexpr std::size_t kInto = 3;
};
struct Scatterv : Collective<Scatterv> {
  template <class Counts, class Places, class... A>
  static void Describe(Call& call, const void*, Counts, Places, MPI_Datatype sent_type, void* into, auto received,
                       MPI_Datatype received_type, int root, MPI_Comm comm, A...) {
    Attach(call, comm);
    call.root = root;
    CheckRoot(call);
    if (call.rank == root && into == MPI_IN_PLACE) return AmountOfOne(call, 0, sent_type);
    if (call.rank != root) CheckCount(call, received);
    AmountOfOne(call, static_cast<std::uint64_t>(received), received_type);
  }
  template <class Counts, class Places, class... A>
  static void Tell(Call& call, const void*, Counts counts, Places, MPI_Datatype sent_type, void* to, auto received,
                   MPI_Datatype received_type, int root, MPI_Comm, A...) {
    const std::uint32_t ranks = call.rank == root ? RanksOf(call) : 0;
    Parts parts(call, ranks, 1);
    const Total total = AddEach(parts, ranks, counts, sent_type);
    AddOne(parts, to, received, received_type);
    parts.Done();
    CheckCount(call, total.least);
  }
  template <class Counts, class Places, class... A>
  static void Touch(const Call& call, Footprint& touched, const void* from, Counts counts, Places places,
                    MPI_Datatype sent_type, void* into, auto received, MPI_Datatype received_type, int root, MPI_Comm,
                    A...) {
    if (call.rank == root) touched.AddEach(Use::kRead, from, call.size, counts, places, sent_type);
    touched.Add(Use::kWritten, into, Unsigned(received), received_type);
  }
  static constexpr std::size_t kInto = 4;
};
// Alltoall too.
struct Allgather : Collective<Allgather> {
  template <class... A>
  static void Describe(Call& call, const void* from, auto sent, MPI_Datatype sent_type, void* into, auto received,
                       MPI_Datatype received_type, MPI_Comm comm, A...) {
    Attach(call, comm);
    CheckCount(call, received);
    if (from != MPI_IN_PLACE) CheckCount(call, sent);
    Amount(call, static_cast<std::uint64_t>(received), received_type);
    CheckBuffer(call, into, call.bytes, received_type);
    CheckOwnPart(call, from, sent, sent_type, sent, sent_type, received, received_type);
    CheckPartApart(call, from, sent, sent_type, into, received_type);
    if (from != MPI_IN_PLACE && !call.inter) Compare(call, SignatureOf(static_cast<std::uint64_t>(sent), sent_type));
  }
  template <class... A>
  static void Touch(const Call& call, Footprint& touched, const void* from, auto sent, MPI_Datatype sent_type,
                    void* into, auto received, MPI_Datatype received_type, MPI_Comm, A...) {
    const std::string_view name = functions::FullName(call.function);
    const bool to_each = name.find("toall") != name.npos;
    touched.Add(Use::kRead, from, Unsigned(sent) * (to_each ? call.size : 1), sent_type);
    touched.Add(Use::kWritten, into, Unsigned(received) * call.size, received_type);
  }
  static constexpr std::size_t kInto = 3;
};
using Alltoall = Allgather;
struct Allgatherv : Collective<Allgatherv> {
  template <class Counts, class Places, class... A>
  static void Describe(Call& call, const void* from, auto sent, MPI_Datatype sent_type, void*, Counts counts,
                       Places places, MPI_Datatype received_type, MPI_Comm comm, A...) {
    Attach(call, comm);
    AmountOfAll(call, counts, received_type);
    if (!call.inter) CheckPartsApart(call, from, counts, places, received_type);
    if (from == MPI_IN_PLACE || !counts || call.inter || call.rank < 0) return;
    const std::uint32_t own = SignatureOf(static_cast<std::uint64_t>(counts[call.rank]), received_type);
    const std::uint32_t mine = SignatureOf(static_cast<std::uint64_t>(sent), sent_type);
    if (own && own != mine) Compare(call, mine);
  }
  template <class Counts, class Places, class... A>
  static void Touch(const Call& call, Footprint& touched, const void* from, auto sent, MPI_Datatype sent_type,
                    void* into, Counts counts, Places places, MPI_Datatype received_type, MPI_Comm, A...) {
    touched.Add(Use::kRead, from, Unsigned(sent), sent_type);
    touched.AddEach(Use::kWritten, into, call.size, counts, places, received_type);
  }
  static constexpr std::size_t kInto = 3;
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
  template <class Counts, class Places, class Type, class... A>
  static void Touch(const Call& call, Footprint& touched, const void* from, Counts sent, Places sent_places,
                    Type sent_type, void* into, Counts received, Places places, Type received_type, MPI_Comm, A...) {
    if (from != MPI_IN_PLACE) touched.AddEach(Use::kRead, from, call.size, sent, sent_places, sent_type);
    touched.AddEach(Use::kWritten, into, call.size, received, places, received_type);
  }
  static constexpr std::size_t kInto = 4;
  template <class Counts, class Type>
  static void TellAll(Call& call, Counts sent, Type sent_type, Counts received, Type received_type) {
    const std::uint32_t ranks = RanksOf(call);
    Parts parts(call, ranks, ranks);
    const Total total = AddEach(parts, ranks, sent, sent_type);
    const Total room = AddEach(parts, ranks, received, received_type);
    parts.Done();
    CheckCount(call, std::min(total.least, room.least));
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
  template <class... A>
  static void Touch(const Call& call, Footprint& touched, A... arguments) {
    Alltoallv::Touch(call, touched, arguments...);
  }
  static constexpr std::size_t kInto = Alltoallv::kInto;
};

// Neighbours need not agree with anybody else; who they are is known once the communicator is.
struct NeighborAllgather : Collective<NeighborAllgather> {
  template <class... A>
  static void Describe(Call& call, const void*, auto sent, MPI_Datatype sent_type, void*, auto received, MPI_Datatype,
                       MPI_Comm comm, A...) {
    Attach(call, comm);
    CheckCount(call, sent);
    CheckCount(call, received);
    AmountOfOne(call, static_cast<std::uint64_t>(sent), sent_type);
  }
  template <class... A>
  static void Tell(Call& call, const void*, auto sent, MPI_Datatype sent_type, void*, auto received,
                   MPI_Datatype received_type, MPI_Comm comm, A...) {
    TellNeighbours(call, comm, sent, sent_type, received, received_type);
  }
};
using NeighborAlltoall = NeighborAllgather;
struct NeighborAllgatherv : Collective<NeighborAllgatherv> {
  template <class Counts, class Places, class... A>
  static void Describe(Call& call, const void*, auto sent, MPI_Datatype sent_type, void*, Counts, Places, MPI_Datatype,
                       MPI_Comm comm, A...) {
    Attach(call, comm);
    CheckCount(call, sent);
    AmountOfOne(call, static_cast<std::uint64_t>(sent), sent_type);
  }
  template <class Counts, class Places, class... A>
  static void Tell(Call& call, const void*, auto sent, MPI_Datatype sent_type, void*, Counts received, Places,
                   MPI_Datatype received_type, MPI_Comm comm, A...) {
    TellNeighbours(call, comm, sent, sent_type, received, received_type);
  }
};
struct NeighborAlltoallv : Collective<NeighborAlltoallv> {
  template <class Counts, class Places, class... A>
  static void Describe(Call& call, const void*, Counts, Places, MPI_Datatype sent_type, void*, Counts, Places,
                       MPI_Datatype, MPI_Comm comm, A...) {
    Attach(call, comm);
    AmountOfOne(call, 0, sent_type);
  }
  template <class Counts, class Places, class... A>
  static void Tell(Call& call, const void*, Counts sent, Places, MPI_Datatype sent_type, void*, Counts received, Places,
                   MPI_Datatype received_type, MPI_Comm comm, A...) {
    TellNeighbours(call, comm, sent, sent_type, received, received_type);
  }
};
struct NeighborAlltoallw : Collective<NeighborAlltoallw> {
  template <class Counts, class Places, class Types, class... A>
  static void Describe(Call& call, const void*, Counts, Places, Types, void*, Counts, Places, Types, MPI_Comm comm,
                       A...) {
    Attach(call, comm);
  }
  template <class Counts, class Places, class Types, class... A>
  static void Tell(Call& call, const void*, Counts sent, Places, Types sent_types, void*, Counts received, Places,
                   Types received_types, MPI_Comm comm, A...) {
    if (sent_types && received_types) TellNeighbours(call, comm, sent, sent_types, received, received_types);
  }
};

}  // namespace ncclwatch::shim::mpi::shapes
