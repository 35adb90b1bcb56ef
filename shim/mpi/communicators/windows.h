// The windows of MPI, and the epochs that this process has open on them. A window has an entry in the table of
// communicators: its identity is as theirs, its collectives are MPI_Win_fence and MPI_Win_free.
#pragma once

#include <cstdint>
#include <vector>

#include "shim/mpi/core/abi.h"
#include "shim/mpi/core/call.h"
#include "shim/mpi/core/handle_map.h"

namespace ncclwatch::shim::mpi {

// Where an epoch was opened: return address and function of the call. Not open: 0.
struct Opening {
  std::uint64_t site = 0;
  std::uint32_t function = 0;
};

struct Window {
  std::uint64_t serial = 0;  // of no other window of this process
  std::uint32_t index = format::kNoCommunicator;
  std::uint32_t generation = 0;
  std::uint32_t locks = 0;         // targets that are locked one by one
  std::uint32_t starts = 0;        // calls of MPI_Win_start
  std::uint32_t synchronized = 0;  // what orders accesses of this process: fences, locks, flushes and so on
  bool fence_open = false;         // the last fence allows accesses after it
  bool used = false;               // ... and there was one
  bool targets_unknown = false;    // whom MPI_Win_start has named could not be learned
  bool all_locked = false;
  bool no_locks = false;  // so its maker has promised

  Opening fence = {}, start = {}, post = {}, lock = {};  // lock: the last one

  bool started() const { return start.site != 0; }
  bool posted() const { return post.site != 0; }
  bool locked() const { return locks > 0 || all_locked; }
};

// The creating call on a communicator: before and after. `unit`: of displacements into this rank's memory, which has so
// many bytes, -1: it comes and goes.
void BeginWindow(Call& call, MPI_Comm comm, std::int64_t unit, std::int64_t bytes, std::uint32_t* made);
void EndWindow(Call& call, std::uint32_t made, int result, const MPI_Win* window, MPI_Info info);

// Attaches the call to the window's entry. False: nothing is known of it, and nothing is said of its epochs.
bool AttachWindow(Call& call, MPI_Win handle, Window* window);
void CheckTarget(Call& call, int target);
// Before the calls that open, close and need epochs: whether the standard allows them now.
void CheckFence(Call& call, const Window& window, int assertion);
void CheckStart(Call& call, const Window& window, MPI_Group group);
void CheckPost(Call& call, const Window& window, MPI_Group group);
// Whom a call names, told in its record. False: that is not known.
bool TellNamed(Call& call, MPI_Win handle, MPI_Group group, std::vector<int>* ranks);
void CheckLock(Call& call, const Window& window, int target);
void CheckLockAll(Call& call, const Window& window);
void CheckUnlock(Call& call, const Window& window, int target);
void CheckFlush(Call& call, const Window& window, int target);
void CheckFlushAll(Call& call, const Window& window);
void CheckFree(Call& call, const Window& window);
// Before an access: where it goes, and the epoch that it belongs to.
void DescribeAccess(Call& call, MPI_Win handle, int target, MPI_Aint displacement, bool with_request);

// After them, where they have succeeded.
void NoteFence(const Call& call, MPI_Win handle, int assertion);
void NoteStart(const Call& call, MPI_Win handle, bool known, const std::vector<int>& ranks);
void NoteComplete(MPI_Win handle);
void NotePost(const Call& call, MPI_Win handle);
void NoteWait(MPI_Win handle);
void NoteLock(const Call& call, MPI_Win handle, int target, int type);
void NoteUnlock(MPI_Win handle, int target);
void NoteLockAll(const Call& call, MPI_Win handle);
void NoteUnlockAll(MPI_Win handle);
void NoteFlush(MPI_Win handle);
// MPI_Win_free: before and after.
void EndFreeingWindow(Call& call, MPI_Win handle, int result);

// In MPI_Finalize: epochs that are still open.
void ReportOpenEpochs(Call& finalize);

}  // namespace ncclwatch::shim::mpi
