// Waits and tests: which operations they are about, and what they learn of them.
#pragma once

#include <cstdint>

#include "shim/mpi/requests/requests.h"

namespace ncclwatch::shim::mpi {

// The active requests among those that a call was given, as they were before it: the call takes the handles away, and
// others may get them at once. Up to kFew lie on the stack.
class Awaited {
 public:
  Awaited(Call& call, int count, const MPI_Request* handles);
  ~Awaited();
  Awaited(const Awaited&) = delete;
  Awaited& operator=(const Awaited&) = delete;

  // Nothing to wait for: the call is passed on. Of persistent requests that rest, and of what is not known, a record is
  // made: not every MPI comes back from them.
  bool none() const { return given_ == 0; }
  // Before a call that blocks: its record, noted in those of the operations.
  void Enter(Call& call);
  // What to pass in place of the caller's status or statuses, where it wants none and we need them.
  MPI_Status* One(MPI_Status* wanted);
  MPI_Status* All(MPI_Status* wanted);
  // After a test.
  void NoteTest(Call& call, int result, bool found);
  // The operation at this place is over.
  void Close(int at, const MPI_Status* status);
  // All of them, but for those that an error has left open.
  void CloseAll(const MPI_Request* handles, int result, const MPI_Status* statuses);
  void CloseAny(const int* index, const MPI_Status* status);  // what MPI says: none, MPI_UNDEFINED
  void CloseSome(int number, const int* places, const MPI_Status* statuses);

 private:
  struct Row {
    std::uint64_t handle;
    Pending request;
  };
  bool MakeRoom(const MPI_Request* handles);  // false: none is needed, or there is none
  static constexpr int kFew = 64;  // the window of most benchmarks, and more than the neighbours of most halos

  Call& call_;
  int count_;
  int given_ = 0;    // that are not null
  int known_ = 0;    // and active
  int unknown_ = 0;  // and made where no wrapper sees it: they may end at any time
  bool needs_status_ = false;
  Row* rows_ = reinterpret_cast<Row*>(few_);
  MPI_Status* statuses_ = few_statuses_;
  void* many_ = nullptr;                       // where more than kFew lie
  alignas(Row) char few_[kFew * sizeof(Row)];  // not a Row more is made than is needed
  MPI_Status few_statuses_[kFew];
};

// Messages that a matched probe has taken out of the order.
void KeepMessage(const Receipt& receipt, MPI_Message message);
void TakeMessage(Call& call, MPI_Message message);

void DescribeProbe(Call& call, int source, int tag, MPI_Comm comm);
// After a test or probe that does not block: a record of its own if it found something.
void NoteTest(Call& call, int result, bool found);
// The two records of an exchange.
void JoinRecords(const Call& first, const Call& second);

// MPI_Request_free: before and after.
void BeginFreeing(Call& call, std::uint64_t handle);
void FreeRequest(Box& box, std::uint64_t handle);
void CancelRequest(Box& box, std::uint64_t handle);

}  // namespace ncclwatch::shim::mpi
