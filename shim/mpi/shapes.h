// What the arguments of each shape of call say (the shape is a column of mpi.def), and what is done around the real
// function. Describe() takes the arguments that it needs from the front; what follows them (a request, an info) is
// the same for all.
//
// The signature of a collective is what all its ranks must agree about, so that calls that belong together have equal
// fingerprints: of a gather the elements that a rank sends, or the root receives from each.
#pragma once

#include <string_view>
#include <tuple>

#include "shim/mpi/arrays.h"
#include "shim/mpi/communicators.h"
#include "shim/mpi/completion.h"
#include "shim/mpi/datatypes.h"
#include "shim/mpi/record.h"
#include "shim/mpi/requests.h"

namespace ncclwatch::shim::mpi::shapes {

using functions::Function;

// MPI_Isend, not MPI_Init: those that leave a request as their last argument.
constexpr bool IsNonBlocking(Function function) {
  const std::string_view name = functions::FullName(function);
  return name.starts_with("MPI_I") && name.size() > 5 && name[5] >= 'a' && name[5] <= 'z';
}
// MPI_Send_init: makes a request, of which MPI_Start makes a call, which is what is recorded.
constexpr bool IsPersistent(Function function) {
  return functions::FullName(functions::WithSmallCounts(function)).ends_with("_init");
}

template <class... A>
decltype(auto) Last(A&... arguments) {
  return std::get<sizeof...(A) - 1>(std::tie(arguments...));
}

// ---- Collectives.

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
      const int result = real(arguments...);
      if (result == MPI_SUCCESS) OpenRequest(call, *Last(arguments...), false, false, true);
      return result;
    } else {
      if constexpr (IsNonBlocking(function)) call.flags |= format::kRequest;
      EnterCollective(call);
      const int result = real(arguments...);
      if constexpr (IsNonBlocking(function))
        if (result == MPI_SUCCESS) OpenRequest(call, *Last(arguments...), false, false, false);
      LeaveCollective(call, result);
      return result;
    }
  }

 protected:
  // What a rank sends is what each rank has room for; else this call differs from all others.
  static void Compare(Call& call, std::uint32_t sent) {
    if (sent != call.signature) call.signature = static_cast<std::uint32_t>(format::Mix(sent, call.signature));
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
  static void Describe(Call& call, void*, auto count, MPI_Datatype type, int root, MPI_Comm comm, A...) {
    Attach(call, comm);
    Amount(call, static_cast<std::uint64_t>(count), type);
    call.root = root;
  }
};
struct Reduce : Collective<Reduce> {
  template <class... A>
  static void Describe(Call& call, const void*, void*, auto count, MPI_Datatype type, MPI_Op op, int root,
                       MPI_Comm comm, A...) {
    Attach(call, comm);
    Amount(call, static_cast<std::uint64_t>(count), type);
    call.reduction = ReductionOf(op);
    call.root = root;
  }
};
struct Allreduce : Collective<Allreduce> {
  template <class... A>
  static void Describe(Call& call, const void*, void*, auto count, MPI_Datatype type, MPI_Op op, MPI_Comm comm, A...) {
    Attach(call, comm);
    Amount(call, static_cast<std::uint64_t>(count), type);
    call.reduction = ReductionOf(op);
  }
};
struct ReduceScatter : Collective<ReduceScatter> {
  template <class Counts, class... A>
  static void Describe(Call& call, const void*, void*, Counts counts, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                       A...) {
    Attach(call, comm);
    AmountOfAll(call, counts, type);
    call.reduction = ReductionOf(op);
  }
};
struct Gather : Collective<Gather> {
  template <class... A>
  static void Describe(Call& call, const void*, auto sent, MPI_Datatype sent_type, void*, auto received,
                       MPI_Datatype received_type, int root, MPI_Comm comm, A...) {
    Attach(call, comm);
    call.root = root;
    const bool is_root = call.rank == root;
    Amount(call, static_cast<std::uint64_t>(is_root ? received : sent), is_root ? received_type : sent_type);
  }
};
struct Scatter : Collective<Scatter> {
  template <class... A>
  static void Describe(Call& call, const void*, auto sent, MPI_Datatype sent_type, void*, auto received,
                       MPI_Datatype received_type, int root, MPI_Comm comm, A...) {
    Attach(call, comm);
    call.root = root;
    const bool is_root = call.rank == root;
    Amount(call, static_cast<std::uint64_t>(is_root ? sent : received), is_root ? sent_type : received_type);
  }
};
struct Gatherv : Collective<Gatherv> {
  template <class Counts, class Places, class... A>
  static void Describe(Call& call, const void*, auto sent, MPI_Datatype sent_type, void*, Counts, Places, MPI_Datatype,
                       int root, MPI_Comm comm, A...) {
    Attach(call, comm);
    call.root = root;
    AmountOfOne(call, static_cast<std::uint64_t>(sent), sent_type);
  }
};
struct Scatterv : Collective<Scatterv> {
  template <class Counts, class Places, class... A>
  static void Describe(Call& call, const void*, Counts, Places, MPI_Datatype, void*, auto received,
                       MPI_Datatype received_type, int root, MPI_Comm comm, A...) {
    Attach(call, comm);
    call.root = root;
    AmountOfOne(call, static_cast<std::uint64_t>(received), received_type);
  }
};
struct Allgather : Collective<Allgather> {
  template <class... A>
  static void Describe(Call& call, const void* from, auto sent, MPI_Datatype sent_type, void*, auto received,
                       MPI_Datatype received_type, MPI_Comm comm, A...) {
    Attach(call, comm);
    Amount(call, static_cast<std::uint64_t>(received), received_type);
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
    if (own != mine) Compare(call, mine);
  }
};
struct Alltoallv : Collective<Alltoallv> {
  template <class Counts, class Places, class... A>
  static void Describe(Call& call, const void*, Counts, Places, MPI_Datatype sent_type, void*, Counts, Places,
                       MPI_Datatype, MPI_Comm comm, A...) {
    Attach(call, comm);
    AmountOfOne(call, 0, sent_type);
  }
};
struct Alltoallw : Collective<Alltoallw> {
  template <class Counts, class Places, class Types, class... A>
  static void Describe(Call& call, const void*, Counts, Places, Types, void*, Counts, Places, Types, MPI_Comm comm,
                       A...) {
    Attach(call, comm);
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
using NeighborAlltoallv = Alltoallv;
using NeighborAlltoallw = Alltoallw;

// ---- Messages.

constexpr std::uint32_t ModeOf(Function function) {
  switch (functions::WithSmallCounts(function)) {
    case Function::MPI_Ssend:
    case Function::MPI_Issend:
    case Function::MPI_Ssend_init: return format::kSynchronous;
    case Function::MPI_Bsend:
    case Function::MPI_Ibsend:
    case Function::MPI_Bsend_init: return format::kBuffered;
    case Function::MPI_Rsend:
    case Function::MPI_Irsend:
    case Function::MPI_Rsend_init: return format::kReady;
    default: return 0;
  }
}

struct Send {
  template <Function function, class Real, class Count, class... A>
  static int Around(Call& call, Real real, const void* from, Count count, MPI_Datatype type, int to, int tag,
                    MPI_Comm comm, A... more) {
    Attach(call, comm);
    Amount(call, static_cast<std::uint64_t>(count), type);
    call.root = to;
    call.tag = tag;
    call.flags |= ModeOf(function);
    if constexpr (IsPersistent(function)) {
      const int result = real(from, count, type, to, tag, comm, more...);
      if (result == MPI_SUCCESS) OpenRequest(call, *Last(more...), true, false, true);
      return result;
    } else {
      if constexpr (IsNonBlocking(function)) call.flags |= format::kRequest;
      EnterSend(call);
      const int result = real(from, count, type, to, tag, comm, more...);
      if constexpr (IsNonBlocking(function))
        if (result == MPI_SUCCESS) OpenRequest(call, *Last(more...), true, false, false);
      LeaveSend(call, result);
      return result;
    }
  }
};

// Where the caller wants no status, and only one can say which message it was.
class Status {
 public:
  Status(const Call& call, MPI_Status* wanted)
      : passed_(wanted == MPI_STATUS_IGNORE && (call.flags & (format::kAnySource | format::kAnyTag)) ? &own_ : wanted) {
  }
  MPI_Status* passed() { return passed_; }
  // After the receive.
  Receipt receipt(const Call& call) const {
    const bool asked = (call.flags & (format::kAnySource | format::kAnyTag)) != 0 && passed_ != MPI_STATUS_IGNORE;
    return {.slot = call.slot,
            .index = call.index,
            .generation = call.generation,
            .source = asked ? passed_->MPI_SOURCE : call.root,
            .tag = asked ? passed_->MPI_TAG : call.tag};
  }

 private:
  MPI_Status own_;
  MPI_Status* passed_;
};

// A message that was too long for the receive has met it all the same.
inline bool Received(int result) { return result == MPI_SUCCESS || result == MPI_ERR_TRUNCATE; }

struct Recv {
  template <Function function, class Real, class Count, class Last>
  static int Around(Call& call, Real real, void* into, Count count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
                    Last last) {
    Attach(call, comm);
    Amount(call, static_cast<std::uint64_t>(count), type);
    call.root = from;
    call.tag = tag;
    if constexpr (IsPersistent(function)) {
      const int result = real(into, count, type, from, tag, comm, last);
      if (result == MPI_SUCCESS) OpenRequest(call, *last, false, true, true);
      return result;
    } else if constexpr (IsNonBlocking(function)) {
      call.flags |= format::kRequest;
      EnterReceive(call);
      const int result = real(into, count, type, from, tag, comm, last);
      if (result == MPI_SUCCESS) OpenRequest(call, *last, false, true, false);
      Leave(call, result);
      return result;
    } else {
      EnterReceive(call);
      Status status(call, last);
      const int result = real(into, count, type, from, tag, comm, status.passed());
      if (Received(result)) NoteReceipt(call.box, status.receipt(call));
      Leave(call, result);
      return result;
    }
  }
};

struct Mrecv {
  template <Function function, class Real, class Count, class Last>
  static int Around(Call& call, Real real, void* into, Count count, MPI_Datatype type, MPI_Message* message,
                    Last last) {
    Amount(call, static_cast<std::uint64_t>(count), type);
    TakeMessage(call, *message);
    if constexpr (IsNonBlocking(function)) call.flags |= format::kRequest;
    EnterReceive(call);
    const int result = real(into, count, type, message, last);
    if constexpr (IsNonBlocking(function)) {
      if (result == MPI_SUCCESS) OpenRequest(call, *last, false, true, false);
    } else if (Received(result)) {
      NoteReceipt(call.box, {call.slot, call.index, call.generation, call.root, call.tag});
    }
    Leave(call, result);
    return result;
  }
};

// Two records that are one call: neither waits for the other.
struct Sendrecv {
  template <Function function, class Real, class Count, class Last>
  static int Around(Call& call, Real real, const void* from, Count sent, MPI_Datatype sent_type, int to, int sent_tag,
                    void* into, Count received, MPI_Datatype received_type, int source, int tag, MPI_Comm comm,
                    Last last) {
    Attach(call, comm);
    Call send = call;
    Amount(send, static_cast<std::uint64_t>(sent), sent_type);
    send.root = to;
    send.tag = sent_tag;
    Amount(call, static_cast<std::uint64_t>(received), received_type);
    call.root = source;
    call.tag = tag;
    return Exchange<function>(send, call, last, [&](auto* passed) {
      return real(from, sent, sent_type, to, sent_tag, into, received, received_type, source, tag, comm, passed);
    });
  }

  template <Function function, class Last, class Pass>
  static int Exchange(Call& send, Call& receive, Last last, const Pass& pass) {
    if constexpr (IsNonBlocking(function)) {
      send.flags |= format::kRequest | format::kForgotten;  // the request is told to be the receive's
      receive.flags |= format::kRequest;
    }
    EnterSend(send);
    receive.group = send.slot + 1;
    EnterReceive(receive);
    JoinRecords(send, receive);
    int result;
    if constexpr (IsNonBlocking(function)) {
      result = pass(last);
      if (result == MPI_SUCCESS) OpenRequest(receive, *last, false, true, false);
    } else {
      Status status(receive, last);
      result = pass(status.passed());
      if (Received(result)) NoteReceipt(receive.box, status.receipt(receive));
    }
    LeaveSend(send, result);
    Leave(receive, result);
    return result;
  }
};
struct SendrecvReplace {
  template <Function function, class Real, class Count, class Last>
  static int Around(Call& call, Real real, void* buffer, Count count, MPI_Datatype type, int to, int sent_tag,
                    int source, int tag, MPI_Comm comm, Last last) {
    Attach(call, comm);
    Amount(call, static_cast<std::uint64_t>(count), type);
    Call send = call;
    send.root = to;
    send.tag = sent_tag;
    call.root = source;
    call.tag = tag;
    return Sendrecv::Exchange<function>(send, call, last, [&](auto* passed) {
      return real(buffer, count, type, to, sent_tag, source, tag, comm, passed);
    });
  }
};

struct Probe {
  template <Function, class Real>
  static int Around(Call& call, Real real, int source, int tag, MPI_Comm comm, MPI_Status* status) {
    DescribeProbe(call, source, tag, comm);
    EnterOther(call);
    const int result = real(source, tag, comm, status);
    Leave(call, result);
    return result;
  }
};
struct Iprobe {
  template <Function, class Real>
  static int Around(Call& call, Real real, int source, int tag, MPI_Comm comm, int* flag, MPI_Status* status) {
    DescribeProbe(call, source, tag, comm);
    const int result = real(source, tag, comm, flag, status);
    NoteTest(call, result, result != MPI_SUCCESS || *flag);
    return result;
  }
};
struct Mprobe {
  template <Function, class Real>
  static int Around(Call& call, Real real, int source, int tag, MPI_Comm comm, MPI_Message* message,
                    MPI_Status* wanted) {
    DescribeProbe(call, source, tag, comm);
    EnterOther(call);
    Status status(call, wanted);
    const int result = real(source, tag, comm, message, status.passed());
    if (result == MPI_SUCCESS) KeepMessage(status.receipt(call), *message);
    Leave(call, result);
    return result;
  }
};
struct Improbe {
  template <Function, class Real>
  static int Around(Call& call, Real real, int source, int tag, MPI_Comm comm, int* flag, MPI_Message* message,
                    MPI_Status* wanted) {
    DescribeProbe(call, source, tag, comm);
    Status status(call, wanted);
    const int result = real(source, tag, comm, flag, message, status.passed());
    const bool found = result == MPI_SUCCESS && *flag;
    if (found) KeepMessage(status.receipt(call), *message);
    NoteTest(call, result, result != MPI_SUCCESS || found);
    return result;
  }
};

// ---- Requests.

struct Wait {
  template <Function, class Real>
  static int Around(Call& call, Real real, MPI_Request* request, MPI_Status* wanted) {
    Awaited awaited(call, 1, request);
    if (awaited.none()) return real(request, wanted);
    awaited.Enter(call);
    MPI_Status* const status = awaited.One(wanted);
    const int result = real(request, status);
    awaited.Close(0, status);
    Leave(call, result);
    return result;
  }
};
struct Waitall {
  template <Function, class Real>
  static int Around(Call& call, Real real, int count, MPI_Request* requests, MPI_Status* wanted) {
    Awaited awaited(call, count, requests);
    if (awaited.none()) return real(count, requests, wanted);
    awaited.Enter(call);
    MPI_Status* const statuses = awaited.All(wanted);
    const int result = real(count, requests, statuses);
    awaited.CloseAll(requests, result, statuses);
    Leave(call, result);
    return result;
  }
};
struct Waitany {
  template <Function, class Real>
  static int Around(Call& call, Real real, int count, MPI_Request* requests, int* index, MPI_Status* wanted) {
    call.flags |= format::kAnyDoes;
    Awaited awaited(call, count, requests);
    if (awaited.none()) return real(count, requests, index, wanted);
    awaited.Enter(call);
    MPI_Status* const status = awaited.One(wanted);
    const int result = real(count, requests, index, status);
    if (*index != MPI_UNDEFINED) awaited.Close(*index, status);
    Leave(call, result);
    return result;
  }
};
struct Waitsome {
  template <Function, class Real>
  static int Around(Call& call, Real real, int count, MPI_Request* requests, int* done, int* indices,
                    MPI_Status* wanted) {
    call.flags |= format::kAnyDoes;
    Awaited awaited(call, count, requests);
    if (awaited.none()) return real(count, requests, done, indices, wanted);
    awaited.Enter(call);
    MPI_Status* const statuses = awaited.All(wanted);
    const int result = real(count, requests, done, indices, statuses);
    awaited.CloseSome(*done, indices, statuses);
    Leave(call, result);
    return result;
  }
};
struct Test {
  template <Function, class Real>
  static int Around(Call& call, Real real, MPI_Request* request, int* flag, MPI_Status* wanted) {
    Awaited awaited(call, 1, request);
    if (awaited.none()) return real(request, flag, wanted);
    MPI_Status* const status = awaited.One(wanted);
    const int result = real(request, flag, status);
    awaited.NoteTest(call, result, result != MPI_SUCCESS || *flag);
    if (*flag) awaited.Close(0, status);
    return result;
  }
};
struct Testall {
  template <Function, class Real>
  static int Around(Call& call, Real real, int count, MPI_Request* requests, int* flag, MPI_Status* wanted) {
    Awaited awaited(call, count, requests);
    if (awaited.none()) return real(count, requests, flag, wanted);
    MPI_Status* const statuses = awaited.All(wanted);
    const int result = real(count, requests, flag, statuses);
    awaited.NoteTest(call, result, result != MPI_SUCCESS || *flag);
    if (*flag) awaited.CloseAll(requests, result, statuses);
    return result;
  }
};
struct Testany {
  template <Function, class Real>
  static int Around(Call& call, Real real, int count, MPI_Request* requests, int* index, int* flag,
                    MPI_Status* wanted) {
    call.flags |= format::kAnyDoes;
    Awaited awaited(call, count, requests);
    if (awaited.none()) return real(count, requests, index, flag, wanted);
    MPI_Status* const status = awaited.One(wanted);
    const int result = real(count, requests, index, flag, status);
    awaited.NoteTest(call, result, result != MPI_SUCCESS || *flag);
    if (*flag && *index != MPI_UNDEFINED) awaited.Close(*index, status);
    return result;
  }
};
struct Testsome {
  template <Function, class Real>
  static int Around(Call& call, Real real, int count, MPI_Request* requests, int* done, int* indices,
                    MPI_Status* wanted) {
    call.flags |= format::kAnyDoes;
    Awaited awaited(call, count, requests);
    if (awaited.none()) return real(count, requests, done, indices, wanted);
    MPI_Status* const statuses = awaited.All(wanted);
    const int result = real(count, requests, done, indices, statuses);
    awaited.NoteTest(call, result, result != MPI_SUCCESS || *done != 0);
    awaited.CloseSome(*done, indices, statuses);
    return result;
  }
};
struct Start {
  template <Function, class Real>
  static int Around(Call& call, Real real, MPI_Request* request) {
    StartRequest(call.box, call.thread, call.site, *request);
    return real(request);
  }
};
struct Startall {
  template <Function, class Real>
  static int Around(Call& call, Real real, int count, MPI_Request* requests) {
    for (int i = 0; i < count; ++i) StartRequest(call.box, call.thread, call.site, requests[i]);
    return real(count, requests);
  }
};
struct RequestFree {
  template <Function, class Real>
  static int Around(Call& call, Real real, MPI_Request* request) {
    const std::uint64_t handle = Bits(*request);
    const int result = real(request);
    if (result == MPI_SUCCESS) FreeRequest(call.box, handle);
    return result;
  }
};
struct Cancel {
  template <Function, class Real>
  static int Around(Call&, Real real, MPI_Request* request) {
    CancelRequest(Bits(*request));
    return real(request);
  }
};

// ---- Communicators: the first argument is the one that they are made from, the last where the new one goes.

template <class Shape>
struct Makes {
  template <Function, class Real, class... A>
  static int Around(Call& call, Real real, MPI_Comm comm, A... more) {
    Attach(call, comm);
    Making making = Shape::From(comm, more...);
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
struct CommCreate : Makes<CommCreate> {
  static Making From(MPI_Comm comm, MPI_Group group, MPI_Comm*) {
    return {.origin = Origin::kOfGroup, .what = HashOfGroup(comm, group)};
  }
};
struct CommCreateGroup : Makes<CommCreateGroup> {
  static Making From(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm*) {
    return {.origin = Origin::kOfGroupAlone,
            .what = format::Mix(HashOfGroup(comm, group), static_cast<std::uint32_t>(tag))};
  }
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
    if (result == MPI_SUCCESS) OpenRequest(call, *Last(more...), false, false, false);
    EndMaking(call, making, result, std::get<sizeof...(A) - 2>(std::tie(more...)));
    return result;
  }
};
using CommIdupWithInfo = CommIdup;
struct CommFree {
  template <Function, class Real>
  static int Around(Call& call, Real real, MPI_Comm* comm) {
    BeginEnding(call, *comm);
    const int result = real(comm);
    EndEnding(call, result);
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

// ---- The rest.

struct TypeMakes {
  template <Function, class Real, class... A>
  static int Around(Call& call, Real real, A... arguments) {
    const int result = real(arguments...);
    if (result == MPI_SUCCESS) LearnDatatype(*Last(arguments...), call.site);
    return result;
  }
};
struct TypeCommit {
  template <Function, class Real>
  static int Around(Call&, Real real, MPI_Datatype* type) {
    const int result = real(type);
    if (result == MPI_SUCCESS) CommitDatatype(*type);
    return result;
  }
};
struct TypeFree {
  template <Function, class Real>
  static int Around(Call&, Real real, MPI_Datatype* type) {
    const MPI_Datatype before = *type;
    ForgetDatatype(before);
    return real(type);
  }
};

struct Init {
  template <Function, class Real, class... A>
  static int Around(Call& call, Real real, A... arguments) {
    BeginWorld(call.box);
    EnterOther(call);
    const int result = real(arguments...);
    if (result == MPI_SUCCESS) LearnPredefined();
    if (result == MPI_SUCCESS) LearnThreads();
    EndWorld(call.box, result);
    Leave(call, result);
    return result;
  }
};
// Recorded, and no more is said of it.
struct Plain {
  template <Function, class Real, class... A>
  static int Around(Call& call, Real real, A... arguments) {
    EnterOther(call);
    const int result = real(arguments...);
    Leave(call, result);
    return result;
  }
};
using Finalize = Plain;
struct Abort {
  template <Function, class Real>
  static int Around(Call& call, Real real, MPI_Comm comm, int code) {
    Attach(call, comm);
    call.count = static_cast<std::uint64_t>(code);
    EnterOther(call);
    return real(comm, code);
  }
};
// What MPI does in it on its own account is not the application's; of the call itself nothing is kept.
struct Silent {
  template <Function, class Real, class... A>
  static int Around(Call&, Real real, A... arguments) {
    return real(arguments...);
  }
};

}  // namespace ncclwatch::shim::mpi::shapes
