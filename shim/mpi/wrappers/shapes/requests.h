// Waits, tests, starts and ends of requests.
#pragma once

#include "shim/mpi/requests/buffers.h"
#include "shim/mpi/requests/completion.h"
#include "shim/mpi/wrappers/shapes/arguments.h"

namespace ncclwatch::shim::mpi::shapes {

struct Wait {
  template <Function, class Real>
  static int Intercept(Call& call, Real real, MPI_Request* request, MPI_Status* wanted) {
    Awaited awaited(call, 1, request);
    if (awaited.none()) return Noted(call, real(request, wanted));
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
  static int Intercept(Call& call, Real real, int count, MPI_Request* requests, MPI_Status* wanted) {
    Awaited awaited(call, count, requests);
    if (awaited.none()) return Noted(call, real(count, requests, wanted));
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
  static int Intercept(Call& call, Real real, int count, MPI_Request* requests, int* index, MPI_Status* wanted) {
    call.flags |= format::kAnyDoes;
    Awaited awaited(call, count, requests);
    if (awaited.none()) return Noted(call, real(count, requests, index, wanted));
    awaited.Enter(call);
    MPI_Status* const status = awaited.One(wanted);
    const int result = real(count, requests, index, status);
    awaited.CloseAny(index, status);
    Leave(call, result);
    return result;
  }
};
struct Waitsome {
  template <Function, class Real>
  static int Intercept(Call& call, Real real, int count, MPI_Request* requests, int* done, int* indices,
                       MPI_Status* wanted) {
    call.flags |= format::kAnyDoes;
    Awaited awaited(call, count, requests);
    if (awaited.none()) return Noted(call, real(count, requests, done, indices, wanted));
    awaited.Enter(call);
    MPI_Status* const statuses = awaited.All(wanted);
    const int result = real(count, requests, done, indices, statuses);
    awaited.CloseSome(Given(done, MPI_UNDEFINED), indices, statuses);
    Leave(call, result);
    return result;
  }
};
struct Test {
  template <Function, class Real>
  static int Intercept(Call& call, Real real, MPI_Request* request, int* flag, MPI_Status* wanted) {
    Awaited awaited(call, 1, request);
    if (awaited.none()) return Noted(call, real(request, flag, wanted));
    MPI_Status* const status = awaited.One(wanted);
    const int result = real(request, flag, status);
    awaited.NoteTest(call, result, result != MPI_SUCCESS || IsSet(flag));
    if (IsSet(flag)) awaited.Close(0, status);
    return result;
  }
};
struct Testall {
  template <Function, class Real>
  static int Intercept(Call& call, Real real, int count, MPI_Request* requests, int* flag, MPI_Status* wanted) {
    Awaited awaited(call, count, requests);
    if (awaited.none()) return Noted(call, real(count, requests, flag, wanted));
    MPI_Status* const statuses = awaited.All(wanted);
    const int result = real(count, requests, flag, statuses);
    awaited.NoteTest(call, result, result != MPI_SUCCESS || IsSet(flag));
    if (IsSet(flag)) awaited.CloseAll(requests, result, statuses);
    return result;
  }
};
struct Testany {
  template <Function, class Real>
  static int Intercept(Call& call, Real real, int count, MPI_Request* requests, int* index, int* flag,
                       MPI_Status* wanted) {
    call.flags |= format::kAnyDoes;
    Awaited awaited(call, count, requests);
    if (awaited.none()) return Noted(call, real(count, requests, index, flag, wanted));
    MPI_Status* const status = awaited.One(wanted);
    const int result = real(count, requests, index, flag, status);
    awaited.NoteTest(call, result, result != MPI_SUCCESS || IsSet(flag));
    if (IsSet(flag)) awaited.CloseAny(index, status);
    return result;
  }
};
struct Testsome {
  template <Function, class Real>
  static int Intercept(Call& call, Real real, int count, MPI_Request* requests, int* done, int* indices,
                       MPI_Status* wanted) {
    call.flags |= format::kAnyDoes;
    Awaited awaited(call, count, requests);
    if (awaited.none()) return Noted(call, real(count, requests, done, indices, wanted));
    MPI_Status* const statuses = awaited.All(wanted);
    const int result = real(count, requests, done, indices, statuses);
    awaited.NoteTest(call, result, result != MPI_SUCCESS || Given(done, 0) != 0);
    awaited.CloseSome(Given(done, MPI_UNDEFINED), indices, statuses);
    return result;
  }
};
struct Start {
  template <Function, class Real>
  static int Intercept(Call& call, Real real, MPI_Request* request) {
    const MPI_Request handle = Given(request, MPI_REQUEST_NULL);
    Check(call, handle);
    StartRequest(call, handle);
    const int result = real(request);
    if (result != MPI_SUCCESS) LearnStart(call, handle);
    return Noted(call, result);
  }
  static void Check(Call& call, MPI_Request request) {
    if (request == MPI_REQUEST_NULL) Report(call, {.wrong = Wrong::kNotPersistent});
  }
};
struct Startall {
  template <Function, class Real>
  static int Intercept(Call& call, Real real, int count, MPI_Request* requests) {
    for (int i = 0; requests && i < count; ++i) {
      Start::Check(call, requests[i]);
      StartRequest(call, requests[i]);
    }
    const int result = real(count, requests);
    for (int i = 0; requests && result != MPI_SUCCESS && i < count; ++i) LearnStart(call, requests[i]);
    return Noted(call, result);
  }
};
struct RequestFree {
  template <Function, class Real>
  static int Intercept(Call& call, Real real, MPI_Request* request) {
    const MPI_Request before = Given(request, MPI_REQUEST_NULL);
    const std::uint64_t handle = Bits(before);
    if (before == MPI_REQUEST_NULL) Report(call, {.wrong = Wrong::kNullObject});
    BeginFreeing(call, handle);
    if (call.box.watches_buffers && KeepFreed(call, before)) [[unlikely]] {
      FreeRequest(call.box, handle);
      *request = MPI_REQUEST_NULL;
      return Noted(call, MPI_SUCCESS);
    }
    const int result = real(request);
    if (result == MPI_SUCCESS) FreeRequest(call.box, handle);
    return Noted(call, result);
  }
};
// Tells of an end without being the call that ends it.
struct RequestStatus {
  template <Function, class Real>
  static int Intercept(Call& call, Real real, MPI_Request request, int* flag, MPI_Status* status) {
    const int result = real(request, flag, status);
    if (result == MPI_SUCCESS && IsSet(flag)) NoteAsked(call, request);
    return Noted(call, result);
  }
};
struct Cancel {
  template <Function, class Real>
  static int Intercept(Call& call, Real real, MPI_Request* request) {
    const MPI_Request handle = Given(request, MPI_REQUEST_NULL);
    if (handle == MPI_REQUEST_NULL) Report(call, {.wrong = Wrong::kNullRequest});
    CancelRequest(call.box, Bits(handle));
    return Noted(call, real(request));
  }
};

}  // namespace ncclwatch::shim::mpi::shapes
