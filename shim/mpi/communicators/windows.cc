#include "shim/mpi/communicators/windows.h"

#include <atomic>
#include <cstring>
#include <vector>

#include "shim/base/put.h"
#include "shim/black_box/table.h"
#include "shim/mpi/communicators/communicators.h"
#include "shim/mpi/core/real.h"
#include "shim/mpi/objects/checks.h"
#include "shim/mpi/objects/groups.h"
#include "shim/mpi/objects/objects.h"
#include "shim/mpi/record/parts.h"
#include "shim/mpi/record/record.h"

namespace ncclwatch::shim::mpi {
namespace {

using format::AccessEpoch;
using format::kNoCommunicator;
using functions::Function;

// What this process may do with one target of a window.
struct Target {
  std::uint64_t window = 0;  // serial
  std::uint32_t start = 0;   // named by this MPI_Win_start, counted from 1
  AccessEpoch lock = AccessEpoch::kNone;
};

constinit HandleMap<Window> windows;
constinit HandleMap<Target> targets;
constinit std::atomic<std::uint64_t> serials{0};

std::uint64_t KeyOf(const Window& window, int target) {
  return std::uint64_t{window.index} << 32 | static_cast<std::uint32_t>(target);
}

Target TargetOf(const Window& window, int target) {
  Target there;
  if (!targets.Find(KeyOf(window, target), &there) || there.window != window.serial) there = {.window = window.serial};
  return there;
}

Opening Here(const Call& call) { return {call.site, static_cast<std::uint32_t>(call.function)}; }

void ReportEpoch(Call& call, Wrong wrong, std::int64_t value, const Opening& opening = {}) {
  Report(call, {.wrong = wrong,
                .value = value,
                .limit = call.size,
                .made_at = opening.site,
                .made_by = static_cast<Function>(opening.function)});
}

// An access epoch that is not one of fences.
const Opening* OtherAccess(const Window& window) {
  if (window.started()) return &window.start;
  return window.locked() ? &window.lock : nullptr;
}
const Opening* AnyAccess(const Window& window) { return window.used ? &window.fence : OtherAccess(window); }

AccessEpoch EpochOf(const Window& window, int target) {
  if (window.locks > 0)
    if (const Target there = TargetOf(window, target); there.lock != AccessEpoch::kNone) return there.lock;
  if (window.all_locked) return AccessEpoch::kShared;
  if (window.started() && (window.targets_unknown || TargetOf(window, target).start == window.starts))
    return AccessEpoch::kStarted;
  return window.fence_open && OtherAccess(window) == nullptr ? AccessEpoch::kFence : AccessEpoch::kNone;
}

[[gnu::cold]] void ReportOutside(Call& call, const Window& window, int target) {
  if (window.started()) return ReportEpoch(call, Wrong::kTargetNotStarted, target, window.start);
  if (window.locked()) return ReportEpoch(call, Wrong::kTargetNotLocked, target, window.lock);
  ReportEpoch(call, Wrong::kOutsideEpoch, target, window.fence);
}

// One piece of memory without gaps.
bool IsWhole(std::uint8_t dtype) {
  return dtype != functions::kDerivedType && dtype != format::kNoType && kTypeClasses[dtype] != kPairs;
}

// Ranks of the window that a group names.
bool RanksOf(MPI_Group group, MPI_Win window, std::vector<int>* ranks) {
  auto* group_of = NCCLWATCH_REAL(MPI_Win_get_group);
  auto* release = NCCLWATCH_REAL(MPI_Group_free);
  MPI_Group whole = MPI_GROUP_NULL;
  if (!group_of || !release || group_of(window, &whole) != MPI_SUCCESS) return false;
  const bool known = RanksIn(group, whole, ranks);
  release(&whole);
  return known;
}

[[gnu::cold]] bool SaysTrue(MPI_Info info, const char* key) {
  auto* ask = NCCLWATCH_REAL(MPI_Info_get);
  char value[8] = {};
  int known = 0;
  return ask && ask(info, key, sizeof value - 1, value, &known) == MPI_SUCCESS && known &&
         std::strcmp(value, "true") == 0;
}

}  // namespace

void BeginWindow(Call& call, MPI_Comm comm, std::int64_t unit, std::int64_t bytes, std::uint32_t* made) {
  *made = BeginCreateCommObject(call, comm, {Origin::kWindow, format::kCommWindow, static_cast<std::int32_t>(unit)});
  if (*made != kNoCommunicator && bytes >= 0) Put(call.box.communicators[*made].memory, bytes + 1);
}

void EndWindow(Call& call, std::uint32_t made, int result, const MPI_Win* handle, MPI_Info info) {
  if (result == MPI_SUCCESS) {
    NoteMade(call, ObjectKind::kWindow, Bits(*handle));
    windows.Remove(Bits(*handle), [](const Window&) { return true; });
    if (made != kNoCommunicator)
      windows.Put(Bits(*handle), {.serial = serials.fetch_add(1, std::memory_order_relaxed) + 1,
                                  .index = made,
                                  .generation = GenerationOf(call.box.communicators[made]),
                                  .no_locks = info != MPI_INFO_NULL && SaysTrue(info, "no_locks")});
  }
  EndCreateCommObject(call, made, result, result == MPI_SUCCESS ? Bits(*handle) : 0);
}

bool AttachWindow(Call& call, MPI_Win handle, Window* window) {
  if (!windows.Find(Bits(handle), window)) [[unlikely]] {
    Life life;
    if (handle == MPI_WIN_NULL)
      Report(call, {.wrong = Wrong::kNullWindow});
    else if (WasFreed(ObjectKind::kWindow, Bits(handle), &life))
      Report(call,
             {.wrong = Wrong::kFreedWindow, .made_at = life.freed_at, .made_by = static_cast<Function>(life.freed_by)});
    return false;
  }
  const format::Communicator& entry = call.box.communicators[window->index];
  call.index = window->index;
  call.generation = window->generation;
  call.rank = static_cast<std::int32_t>(entry.rank);
  call.size = entry.size;
  if (entry.size == 1) call.flags |= format::kOneRank;
  return InSight(ObjectKind::kWindow);
}

void CheckTarget(Call& call, int target) {
  if (InRange(call, target) || target == MPI_PROC_NULL) [[likely]]
    return;
  Report(call, {.wrong = Wrong::kTargetOutOfRange, .value = target, .limit = call.size});
}

void CheckFence(Call& call, const Window& window, int assertion) {
  if (const Opening* open = OtherAccess(window)) return ReportEpoch(call, Wrong::kEpochOpen, 0, *open);
  if ((assertion & MPI_MODE_NOPRECEDE) != 0 && window.used) ReportEpoch(call, Wrong::kAccessesBefore, 0, window.fence);
}

void CheckStart(Call& call, const Window& window, MPI_Group group) {
  if (group == MPI_GROUP_NULL) return Report(call, {.wrong = Wrong::kNullGroup});
  if (const Opening* open = AnyAccess(window)) ReportEpoch(call, Wrong::kEpochOpen, 0, *open);
}

void CheckPost(Call& call, const Window& window, MPI_Group group) {
  if (group == MPI_GROUP_NULL) return Report(call, {.wrong = Wrong::kNullGroup});
  if (window.posted()) ReportEpoch(call, Wrong::kEpochOpen, 0, window.post);
}

void CheckLock(Call& call, const Window& window, int target) {
  if (window.no_locks) [[unlikely]]
    return ReportEpoch(call, Wrong::kNoLocks, target);
  if (window.locks > 0 && TargetOf(window, target).lock != AccessEpoch::kNone)
    return ReportEpoch(call, Wrong::kLockedTwice, target, window.lock);
  const Opening* const open = window.locks > 0 ? nullptr : AnyAccess(window);
  if (open) ReportEpoch(call, Wrong::kEpochOpen, target, *open);
}

void CheckLockAll(Call& call, const Window& window) {
  if (window.no_locks) [[unlikely]]
    return ReportEpoch(call, Wrong::kNoLocks, 0);
  if (const Opening* open = AnyAccess(window)) ReportEpoch(call, Wrong::kEpochOpen, 0, *open);
}

void CheckUnlock(Call& call, const Window& window, int target) {
  if (target == MPI_PROC_NULL || TargetOf(window, target).lock != AccessEpoch::kNone) return;
  ReportEpoch(call, Wrong::kNotLocked, target);
}

void CheckFlush(Call& call, const Window& window, int target) {
  if (target == MPI_PROC_NULL || window.all_locked) return;
  if (window.locks == 0) return ReportEpoch(call, Wrong::kFlushOutside, target);
  if (TargetOf(window, target).lock == AccessEpoch::kNone)
    ReportEpoch(call, Wrong::kTargetNotLocked, target, window.lock);
}

void CheckFlushAll(Call& call, const Window& window) {
  if (!window.locked()) ReportEpoch(call, Wrong::kFlushOutside, 0);
}

void CheckFree(Call& call, const Window& window) {
  const Opening* const open = AnyAccess(window);
  if (open || window.posted()) ReportEpoch(call, Wrong::kFreedInEpoch, 0, open ? *open : window.post);
}

bool TellNamed(Call& call, MPI_Win handle, MPI_Group group, std::vector<int>* ranks) {
  try {
    const bool good = group == MPI_GROUP_EMPTY || IsAlive(ObjectKind::kGroup, Bits(group));
    if (!good || (group != MPI_GROUP_EMPTY && !RanksOf(group, handle, ranks))) return false;
    Parts parts(call, 0, static_cast<std::uint32_t>(ranks->size()));
    for (const int rank : *ranks) parts.Add({static_cast<std::uint32_t>(rank), format::kNoType, 0, 0});
    parts.Done();
    return true;
  } catch (...) {
    return false;  // out of memory
  }
}

namespace {

// In a window of MPI_Win_create_dynamic it is an address, of which there are negative ones.
[[gnu::cold]] void CheckDisplacement(Call& call, MPI_Win handle, MPI_Aint displacement) {
  void* flavor = nullptr;
  int known = 0;
  auto* ask = NCCLWATCH_REAL(MPI_Win_get_attr);
  if (!ask || ask(handle, MPI_WIN_CREATE_FLAVOR, &flavor, &known) != MPI_SUCCESS || !known || !flavor) return;
  if (*static_cast<int*>(flavor) != MPI_WIN_FLAVOR_DYNAMIC)
    Report(call, {.wrong = Wrong::kNegativeDisplacement, .value = displacement});
}

}  // namespace

void DescribeAccess(Call& call, MPI_Win handle, int target, MPI_Aint displacement, bool with_request) {
  Window window;
  call.root = target;
  call.tag = static_cast<std::int32_t>(AccessEpoch::kNone);
  call.signature = 0;
  if (!IsWhole(call.dtype)) call.bytes = 0;
  if (target == MPI_PROC_NULL) call.flags |= format::kNoPartner;
  if (!AttachWindow(call, handle, &window)) return;
  CheckTarget(call, target);
  if (target < 0 || call.misuse) return;
  if (displacement < 0) [[unlikely]]
    CheckDisplacement(call, handle, displacement);
  const AccessEpoch epoch = EpochOf(window, target);
  if (epoch == AccessEpoch::kNone)
    ReportOutside(call, window, target);
  else if (with_request && epoch != AccessEpoch::kShared && epoch != AccessEpoch::kExclusive)
    ReportEpoch(call, Wrong::kRequestInActive, target, epoch == AccessEpoch::kFence ? window.fence : window.start);
  call.tag = static_cast<std::int32_t>(epoch);
  call.chain = static_cast<std::uint64_t>(displacement);
  call.position = call.box.communicators[call.index].entered.load(std::memory_order_relaxed);
  call.signature = window.synchronized;
  if (epoch == AccessEpoch::kFence && !window.used) windows.Change(Bits(handle), [](Window& it) { it.used = true; });
}

void NoteFence(const Call& call, MPI_Win handle, int assertion) {
  windows.Change(Bits(handle), [&](Window& window) {
    window.fence_open = (assertion & MPI_MODE_NOSUCCEED) == 0;
    window.used = false;
    window.fence = Here(call);
    ++window.synchronized;
  });
}

void NoteStart(const Call& call, MPI_Win handle, bool known, const std::vector<int>& ranks) {
  Window now;
  windows.Change(Bits(handle), [&](Window& window) {
    ++window.starts;
    ++window.synchronized;
    window.start = Here(call);
    window.targets_unknown = !known;
    now = window;
  });
  for (const int rank : ranks) {
    Target there = TargetOf(now, rank);
    there.start = now.starts;
    targets.Put(KeyOf(now, rank), there);
  }
}

void NoteComplete(MPI_Win handle) {
  windows.Change(Bits(handle), [](Window& window) {
    window.start = {};
    ++window.synchronized;
  });
}

void NotePost(const Call& call, MPI_Win handle) {
  windows.Change(Bits(handle), [&](Window& window) { window.post = Here(call); });
}

void NoteWait(MPI_Win handle) {
  windows.Change(Bits(handle), [](Window& window) { window.post = {}; });
}

void NoteLock(const Call& call, MPI_Win handle, int target, int type) {
  if (target < 0) return;
  Window now;
  windows.Change(Bits(handle), [&](Window& window) {
    ++window.locks;
    ++window.synchronized;
    window.lock = Here(call);
    now = window;
  });
  Target there = TargetOf(now, target);
  there.lock = type == MPI_LOCK_EXCLUSIVE ? AccessEpoch::kExclusive : AccessEpoch::kShared;
  targets.Put(KeyOf(now, target), there);
}

void NoteUnlock(MPI_Win handle, int target) {
  if (target < 0) return;
  Window now;
  windows.Change(Bits(handle), [&](Window& window) {
    if (window.locks > 0) --window.locks;
    ++window.synchronized;
    now = window;
  });
  targets.Change(KeyOf(now, target), [&](Target& there) { there.lock = AccessEpoch::kNone; });
}

void NoteLockAll(const Call& call, MPI_Win handle) {
  windows.Change(Bits(handle), [&](Window& window) {
    window.all_locked = true;
    window.lock = Here(call);
    ++window.synchronized;
  });
}

void NoteUnlockAll(MPI_Win handle) {
  windows.Change(Bits(handle), [](Window& window) {
    window.all_locked = false;
    ++window.synchronized;
  });
}

void NoteFlush(MPI_Win handle) {
  windows.Change(Bits(handle), [](Window& window) { ++window.synchronized; });
}

void EndFreeingWindow(Call& call, MPI_Win handle, int result) {
  if (result == MPI_SUCCESS) {
    NoteFreed(call, ObjectKind::kWindow, Bits(handle));
    windows.Remove(Bits(handle), [&](const Window& window) { return window.index == call.index; });
  }
  EndFreeCommObject(call, result);
}

void ReportOpenEpochs(Call& finalize) {
  if (!InSight(ObjectKind::kWindow)) return;
  windows.ForEach([&](std::uint64_t, const Window& window) {
    const Opening* const open = AnyAccess(window);
    if (!open && !window.posted()) return;
    finalize.misuse = 0;  // several things may be wrong with it
    const std::int64_t number = window.locks > 1 ? window.locks : (open ? 1 : 0) + (window.posted() ? 1 : 0);
    ReportEpoch(finalize, Wrong::kNeverClosed, number, open ? *open : window.post);
  });
  finalize.misuse = 0;
}

}  // namespace ncclwatch::shim::mpi
