// Sends, receives, exchanges and probes.
#pragma once

#include "shim/mpi/core/real.h"
#include "shim/mpi/objects/attached.h"
#include "shim/mpi/objects/checks.h"
#include "shim/mpi/objects/datatypes.h"
#include "shim/mpi/requests/buffers.h"
#include "shim/mpi/requests/completion.h"
#include "shim/mpi/requests/footprint.h"
#include "shim/mpi/requests/requests.h"
#include "shim/mpi/wrappers/shapes/arguments.h"

namespace ncclwatch::shim::mpi::shapes {

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

// Of a standard send: the one that waits for its receiver.
constexpr Function SynchronousOf(Function function) {
  switch (function) {
    case Function::MPI_Send: return Function::MPI_Ssend;
    case Function::MPI_Isend: return Function::MPI_Issend;
    case Function::MPI_Send_init: return Function::MPI_Ssend_init;
    case Function::MPI_Send_c: return Function::MPI_Ssend_c;
    case Function::MPI_Isend_c: return Function::MPI_Issend_c;
    case Function::MPI_Send_init_c: return Function::MPI_Ssend_init_c;
    default: return Function::kNone;
  }
}

template <class Count>
void DescribeSend(Call& call, const void* from, Count count, MPI_Datatype type, int to, int tag) {
  call.root = to;
  call.tag = tag;
  CheckDestination(call);
  CheckTag(call);
  CheckCount(call, count);
  Amount(call, static_cast<std::uint64_t>(count), type);
  if (to != MPI_PROC_NULL) CheckBuffer(call, from, call.bytes, type);
  CountPeerThrough(call);
}
template <class Count>
void DescribeReceive(Call& call, void* into, Count count, MPI_Datatype type, int from, int tag) {
  call.root = from;
  call.tag = tag;
  CheckSource(call);
  CheckReceivedTag(call);
  CheckCount(call, count);
  Amount(call, static_cast<std::uint64_t>(count), type);
  if (from != MPI_PROC_NULL) CheckBuffer(call, into, call.bytes, type);
  CountPeerThrough(call);
}

// A request that has been made for the operation, and the memory that is in use from here on: known before the request
// is, whose handle another thread may be given at once.
inline void BeginSent(Call& call, MPI_Request made) {
  OpenPiece(call, Use::kRead, call.piece);
  if (call.box.watches_buffers && call.whole) [[unlikely]]
    WatchSent(call, call.piece);
  OpenRequest(call, made, true, false, false);
}
inline void BeginReceived(Call& call, MPI_Request made) {
  OpenPiece(call, Use::kWritten, call.piece);
  OpenRequest(call, made, false, true, false);
}
// What is to be added to the address of what is received into: 0, but where the program's buffers are watched.
inline std::intptr_t Shadow(const Call& call) {
  return call.box.watches_buffers && call.whole ? ShadowReceived(call, call.piece) : 0;
}
inline void DropShadow(const Call& call, std::intptr_t moved) {
  if (moved != 0) DropBuffers(call.slot);
}

struct Send {
  template <Function function, class Real, class Count, class... A>
  static int Intercept(Call& call, Real real, const void* from, Count count, MPI_Datatype type, int to, int tag,
                       MPI_Comm comm, A... more) {
    Attach(call, comm);
    DescribeSend(call, from, count, type, to, tag);
    call.flags |= ModeOf(function);
    if constexpr (ModeOf(function) == format::kBuffered && !IsPersistent(function)) CheckRoom(call);
    if constexpr (SynchronousOf(function) != Function::kNone)
      if (call.box.makes_sends_synchronous) [[unlikely]]
        MakeSynchronous(call, SynchronousOf(function), &real);
    if constexpr (IsPersistent(function)) {
      const int result = real(from, count, type, to, tag, comm, more...);
      if (result != MPI_SUCCESS) return Noted(call, result);
      OpenRequest(call, *Last(more...), true, false, true);
      const Piece sent = to == MPI_PROC_NULL ? Piece{} : PieceOf(call, from, type);
      KeepBuffers(*Last(more...), PrepareBuffers(call, sent, call.whole, {}, false));
      return Noted(call, result);
    } else {
      if constexpr (IsNonBlocking(function)) call.flags |= format::kRequest;
      if (to != MPI_PROC_NULL) UseBuffer(call, Use::kRead, from, type);
      EnterSend(call);
      const int result = real(from, count, type, to, tag, comm, more...);
      if constexpr (IsNonBlocking(function))
        if (result == MPI_SUCCESS) BeginSent(call, *Last(more...));
      LeaveSend(call, result);
      return result;
    }
  }

 private:
  template <class Real>
  static void MakeSynchronous(Call& call, Function function, Real* real) {
    void* const synchronous = mpi::Real(function, Name::kProfiled);
    if (!synchronous) return;
    *real = reinterpret_cast<Real>(synchronous);
    call.flags |= format::kSynchronous | format::kMadeSynchronous;
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
            .source = asked ? CountedThrough(call.box, call.index, passed_->MPI_SOURCE) : call.root,
            .tag = asked ? passed_->MPI_TAG : call.tag};
  }

 private:
  MPI_Status own_;
  MPI_Status* passed_;
};

// A message that was too long for the receive has met it all the same.
inline bool Received(int result) { return result == MPI_SUCCESS || ClassOf(result) == MPI_ERR_TRUNCATE; }

struct Recv {
  template <Function function, class Real, class Count, class Last>
  static int Intercept(Call& call, Real real, void* into, Count count, MPI_Datatype type, int from, int tag,
                       MPI_Comm comm, Last last) {
    Attach(call, comm);
    DescribeReceive(call, into, count, type, from, tag);
    if constexpr (IsPersistent(function)) {
      const Piece received = from == MPI_PROC_NULL ? Piece{} : PieceOf(call, into, type);
      const SavedBuffers kept = PrepareBuffers(call, {}, false, received, call.whole);
      const int result = real(Moved(into, kept.moved()), count, type, from, tag, comm, last);
      if (result == MPI_SUCCESS) {
        OpenRequest(call, *last, false, true, true);
        KeepBuffers(*last, kept);
      } else {
        Discard(kept);
      }
      return Noted(call, result);
    } else if constexpr (IsNonBlocking(function)) {
      call.flags |= format::kRequest;
      if (from != MPI_PROC_NULL) UseBuffer(call, Use::kWritten, into, type);
      EnterReceive(call);
      const std::intptr_t moved = Shadow(call);
      const int result = real(Moved(into, moved), count, type, from, tag, comm, last);
      if (result == MPI_SUCCESS)
        BeginReceived(call, *last);
      else
        DropShadow(call, moved);
      Leave(call, result);
      return result;
    } else {
      if (last == MPI_STATUS_IGNORE) call.flags |= format::kNoStatus;
      if (from != MPI_PROC_NULL) UseBuffer(call, Use::kWritten, into, type);
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
  static int Intercept(Call& call, Real real, void* into, Count count, MPI_Datatype type, MPI_Message* message,
                       Last last) {
    Amount(call, static_cast<std::uint64_t>(count), type);
    const MPI_Message taken = Given(message, MPI_MESSAGE_NULL);
    if (taken == MPI_MESSAGE_NULL) Report(call, {.wrong = Wrong::kNullMessage});
    TakeMessage(call, taken);
    if (taken != MPI_MESSAGE_NO_PROC) UseBuffer(call, Use::kWritten, into, type);
    if constexpr (IsNonBlocking(function)) call.flags |= format::kRequest;
    EnterReceive(call);
    const std::intptr_t moved = IsNonBlocking(function) ? Shadow(call) : 0;
    const int result = real(Moved(into, moved), count, type, message, last);
    if constexpr (IsNonBlocking(function)) {
      if (result == MPI_SUCCESS)
        BeginReceived(call, *last);
      else
        DropShadow(call, moved);
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
  static int Intercept(Call& call, Real real, const void* from, Count sent, MPI_Datatype sent_type, int to,
                       int sent_tag, void* into, Count received, MPI_Datatype received_type, int source, int tag,
                       MPI_Comm comm, Last last) {
    Attach(call, comm);
    Call send = call;
    DescribeSend(send, from, sent, sent_type, to, sent_tag);
    DescribeReceive(call, into, received, received_type, source, tag);
    if (to != MPI_PROC_NULL && source != MPI_PROC_NULL)
      CheckApart(call, {from, send.bytes, sent_type}, {into, call.bytes, received_type});
    if (to != MPI_PROC_NULL) UseBuffer(send, Use::kRead, from, sent_type);
    if (source != MPI_PROC_NULL) UseBuffer(call, Use::kWritten, into, received_type);
    return Exchange<function>(send, call, last, [&](auto* passed, std::intptr_t moved) {
      return real(from, sent, sent_type, to, sent_tag, Moved(into, moved), received, received_type, source, tag, comm,
                  passed);
    });
  }

  template <Function function, class Last, class Pass>
  static int Exchange(Call& send, Call& receive, Last last, const Pass& pass) {
    if constexpr (IsNonBlocking(function)) {
      send.flags |= format::kRequest | format::kForgotten;  // the request is told to be the receive's
      receive.flags |= format::kRequest;
    } else if (last == MPI_STATUS_IGNORE) {
      receive.flags |= format::kNoStatus;
    }
    EnterSend(send);
    receive.group = send.slot + 1;
    EnterReceive(receive);
    JoinRecords(send, receive);
    int result;
    if constexpr (IsNonBlocking(function)) {
      const std::intptr_t moved = Shadow(receive);
      result = pass(last, moved);
      if (result == MPI_SUCCESS) {
        Call sent = send;
        sent.slot = receive.slot;  // its request
        OpenPiece(sent, Use::kRead, sent.piece);
        if (sent.box.watches_buffers && sent.whole) WatchSent(sent, sent.piece);
        BeginReceived(receive, *last);
      } else {
        DropShadow(receive, moved);
      }
    } else {
      Status status(receive, last);
      result = pass(status.passed(), 0);
      if (Received(result)) NoteReceipt(receive.box, status.receipt(receive));
    }
    LeaveSend(send, result);
    Leave(receive, result);
    return result;
  }
};
struct SendrecvReplace {
  template <Function function, class Real, class Count, class Last>
  static int Intercept(Call& call, Real real, void* buffer, Count count, MPI_Datatype type, int to, int sent_tag,
                       int source, int tag, MPI_Comm comm, Last last) {
    Attach(call, comm);
    Call send = call;
    DescribeSend(send, buffer, count, type, to, sent_tag);
    DescribeReceive(call, buffer, count, type, source, tag);
    if (source != MPI_PROC_NULL)
      UseBuffer(call, Use::kWritten, buffer, type);
    else if (to != MPI_PROC_NULL)
      UseBuffer(send, Use::kRead, buffer, type);
    return Sendrecv::Exchange<function>(send, call, last, [&](auto* passed, std::intptr_t moved) {
      return real(Moved(buffer, moved), count, type, to, sent_tag, source, tag, comm, passed);
    });
  }
};

struct Probe {
  template <Function, class Real>
  static int Intercept(Call& call, Real real, int source, int tag, MPI_Comm comm, MPI_Status* status) {
    DescribeProbe(call, source, tag, comm);
    EnterOther(call);
    const int result = real(source, tag, comm, status);
    Leave(call, result);
    return result;
  }
};
struct Iprobe {
  template <Function, class Real>
  static int Intercept(Call& call, Real real, int source, int tag, MPI_Comm comm, int* flag, MPI_Status* status) {
    DescribeProbe(call, source, tag, comm);
    const int result = real(source, tag, comm, flag, status);
    NoteTest(call, result, result != MPI_SUCCESS || IsSet(flag));
    return result;
  }
};
struct Mprobe {
  template <Function, class Real>
  static int Intercept(Call& call, Real real, int source, int tag, MPI_Comm comm, MPI_Message* message,
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
  static int Intercept(Call& call, Real real, int source, int tag, MPI_Comm comm, int* flag, MPI_Message* message,
                       MPI_Status* wanted) {
    DescribeProbe(call, source, tag, comm);
    Status status(call, wanted);
    const int result = real(source, tag, comm, flag, message, status.passed());
    const bool found = result == MPI_SUCCESS && IsSet(flag);
    if (found) KeepMessage(status.receipt(call), *message);
    NoteTest(call, result, result != MPI_SUCCESS || found);
    return result;
  }
};

struct BufferAttach {
  template <Function, class Real, class Size>
  static int Intercept(Call& call, Real real, void* buffer, Size size) {
    CheckAttach(call);
    const int result = real(buffer, size);
    if (result == MPI_SUCCESS) NoteAttached(buffer, size);
    return Noted(call, result);
  }
};
// Waits until all messages have left the buffer.
struct BufferDetach {
  template <Function, class Real, class Size>
  static int Intercept(Call& call, Real real, void* buffer, Size* size) {
    EnterOther(call);
    const int result = real(buffer, size);
    if (result == MPI_SUCCESS) NoteDetached();
    Leave(call, result);
    return result;
  }
};

}  // namespace ncclwatch::shim::mpi::shapes
