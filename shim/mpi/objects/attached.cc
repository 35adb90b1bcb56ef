#include "shim/mpi/objects/attached.h"

#include <atomic>

#include "shim/mpi/core/misuse.h"
#include "shim/mpi/objects/objects.h"

namespace ncclwatch::shim::mpi {
namespace {

constexpr std::int64_t kNone = -1;
constexpr std::intptr_t kPage = 4096;
constinit std::atomic<std::int64_t> attached{kNone};  // bytes

// A tool may have attached one where no wrapper sees it.
bool IsKnown() { return InSight(ObjectKind::kRequest); }

}  // namespace

void CheckAttach(Call& call) {
  const std::int64_t bytes = attached.load(std::memory_order_relaxed);
  if (bytes != kNone && IsKnown()) Report(call, {.wrong = Wrong::kAttachedAgain, .value = bytes});
}

void NoteAttached(const void* buffer, std::int64_t bytes) {
  // No address but a constant: MPI_BUFFER_AUTOMATIC of MPI 4.1, with which MPI takes what it needs.
  const auto address = reinterpret_cast<std::intptr_t>(buffer);
  const bool automatic = address > -kPage && address < kPage;
  attached.store(automatic ? INT64_MAX : bytes, std::memory_order_relaxed);
}
void NoteDetached() { attached.store(kNone, std::memory_order_relaxed); }

void CheckRoom(Call& call) {
  const std::int64_t bytes = attached.load(std::memory_order_relaxed);
  const auto wanted = static_cast<std::int64_t>(call.bytes);  // 0: its type is not known, or there is nothing to copy
  const std::int64_t room = bytes == kNone ? 0 : bytes;
  if (wanted > room && call.root >= 0 && IsKnown())
    Report(call, {.wrong = Wrong::kNoRoomAttached, .value = wanted, .limit = room});
}

}  // namespace ncclwatch::shim::mpi
