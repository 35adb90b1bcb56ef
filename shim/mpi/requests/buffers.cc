#include "shim/mpi/requests/buffers.h"

#include <sys/mman.h>

#include <cstring>

#include "shim/base/self_memory.h"
#include "shim/mpi/core/handle_map.h"
#include "shim/mpi/core/misuse.h"
#include "shim/mpi/core/own_memory.h"
#include "shim/mpi/core/phase.h"
#include "shim/mpi/core/real.h"
#include "shim/mpi/objects/objects.h"
#include "shim/mpi/requests/origins.h"
#include "shim/mpi/requests/requests.h"

namespace ncclwatch::shim::mpi {

constinit std::atomic<std::uint32_t> freed_requests{0};

namespace {

using functions::Function;

// What is watched of one operation, by the slot of its record.
struct Watched {
  Piece piece = {};
  Piece shadow = {};  // of what is received
  std::uint64_t hash = 0;
  std::uint64_t begun_at = 0;
  std::uint32_t function = 0;
  bool readable = false;  // else nothing is said of it
  bool kept = false;      // the shadow is a persistent operation's
};
constinit HandleMap<Watched> watched_sends;
constinit HandleMap<Watched> received;
constinit HandleMap<SavedBuffers> kept_buffers;  // by request

// Shadows at once: more go without. Each is a mapping, of which a process may have some ten thousands.
constexpr std::uint32_t kMostShadows = 4096;
constexpr std::uint64_t kMostShadowBytes = std::uint64_t{1} << 30;
constinit std::atomic<std::uint32_t> shadows{0};
constinit std::atomic<std::uint64_t> shadow_bytes{0};

Piece MapShadow(std::uint64_t bytes) {
  const bool few = shadows.fetch_add(1) < kMostShadows;
  const bool small = shadow_bytes.fetch_add(bytes) + bytes <= kMostShadowBytes;
  if (few && small) {
    void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory != MAP_FAILED) {
      const auto begin = reinterpret_cast<std::uintptr_t>(memory);
      return {begin, begin + bytes};
    }
  }
  shadows.fetch_sub(1);
  shadow_bytes.fetch_sub(bytes);
  return {};
}

void Unmap(const Piece& shadow) {
  if (shadow.empty()) return;
  munmap(reinterpret_cast<void*>(shadow.begin), shadow.bytes());
  shadows.fetch_sub(1);
  shadow_bytes.fetch_sub(shadow.bytes());
}

bool FillShadow(const Piece& piece, const Piece& shadow) {
  return ReadSelf(piece.begin, reinterpret_cast<void*>(shadow.begin), piece.bytes());
}

Watched Begun(const Call& call, const Piece& piece) {
  Watched watched{.piece = piece, .begun_at = call.site, .function = static_cast<std::uint32_t>(call.function)};
  watched.readable = HashOf(piece, &watched.hash);
  return watched;
}

bool Take(HandleMap<Watched>& from, std::uint64_t slot, Watched* watched) {
  return slot != kNoSlot && from.Find(slot, watched) && from.Remove(slot, [](const Watched&) { return true; });
}

void Compare(Call& ends, const Watched& watched, bool readable, std::uint64_t hash) {
  if (!watched.readable || !readable || hash == watched.hash || !InSight(ObjectKind::kRequest)) return;
  if (IsWindows(watched.piece)) return;
  Report(ends, {.wrong = Wrong::kBufferTouched,
                .made_at = watched.begun_at,
                .made_by = static_cast<Function>(watched.function)});
}

}  // namespace

std::intptr_t ShadowReceived(const Call& call, const Piece& piece) {
  // Who could not be found again would be without what he received.
  if (piece.empty() || call.slot == kNoSlot || call.misuse || !requests.MakeRoom() || IsWindows(piece)) return 0;
  Watched watched = Begun(call, piece);
  if (!watched.readable) return 0;
  watched.shadow = MapShadow(piece.bytes());
  if (watched.shadow.empty()) return 0;
  if (!FillShadow(piece, watched.shadow) || !received.Put(call.slot, watched)) {
    Unmap(watched.shadow);
    return 0;
  }
  return static_cast<std::intptr_t>(watched.shadow.begin - piece.begin);
}

void WatchSent(const Call& call, const Piece& piece) {
  if (piece.empty() || call.slot == kNoSlot || (call.flags & format::kNoPartner)) return;
  const Watched watched = Begun(call, piece);
  if (watched.readable) watched_sends.Put(call.slot, watched);
}

void DropBuffers(std::uint64_t slot) {
  Watched watched;
  Take(watched_sends, slot, &watched);
  if (Take(received, slot, &watched) && !watched.kept) Unmap(watched.shadow);
}

void EndBuffers(Call& ends, std::uint64_t slot) {
  EndOrigin(ends, slot);
  Watched watched;
  std::uint64_t hash = 0;
  if (Take(watched_sends, slot, &watched)) {
    const bool readable = HashOf(watched.piece, &hash);
    Compare(ends, watched, readable, hash);
  }
  if (!Take(received, slot, &watched)) return;
  const bool readable = HashOf(watched.piece, &hash);
  Compare(ends, watched, readable, hash);
  if (readable)
    std::memcpy(reinterpret_cast<void*>(watched.piece.begin), reinterpret_cast<const void*>(watched.shadow.begin),
                watched.piece.bytes());
  if (!watched.kept) Unmap(watched.shadow);
}

SavedBuffers PrepareBuffers(const Call& call, const Piece& read, bool all_read, const Piece& written,
                            bool all_written) {
  SavedBuffers kept{.read = read, .written = written};
  if (!call.box.watches_buffers || call.misuse) return kept;
  std::uint64_t hash;
  kept.watches_read = all_read;
  if (!all_written || written.empty() || IsWindows(written) || !HashOf(written, &hash) || !requests.MakeRoom())
    return kept;
  kept.shadow = MapShadow(written.bytes());
  return kept;
}

void KeepBuffers(MPI_Request request, const SavedBuffers& kept) {
  DropSavedBuffers(Bits(request));
  if (!kept.read.empty() || !kept.written.empty()) kept_buffers.Put(Bits(request), kept);
}

void Discard(const SavedBuffers& kept) { Unmap(kept.shadow); }

void StartBuffers(Call& start, Call& operation, MPI_Request request) {
  SavedBuffers kept;
  if (!kept_buffers.Find(Bits(request), &kept)) return;
  CheckUse(start, Use::kWritten, kept.written);
  CheckUse(start, Use::kRead, kept.read);
  OpenPiece(operation, Use::kWritten, kept.written);
  OpenPiece(operation, Use::kRead, kept.read);
  if (kept.watches_read) WatchSent(operation, kept.read);
  if (kept.shadow.empty()) return;
  if (operation.slot == kNoSlot) {  // not recorded any more; it has to be found again all the same
    static constinit std::atomic<std::uint64_t> unrecorded{std::uint64_t{1} << 63};
    operation.slot = unrecorded.fetch_add(1, std::memory_order_relaxed);
  }
  Watched watched = Begun(operation, kept.written);
  watched.shadow = kept.shadow;
  watched.kept = true;
  watched.readable = watched.readable && FillShadow(kept.written, kept.shadow);
  received.Put(operation.slot, watched);
}

void DropSavedBuffers(std::uint64_t request) {
  SavedBuffers kept;
  if (kept_buffers.Find(request, &kept) && kept_buffers.Remove(request, [](const SavedBuffers&) { return true; }))
    Discard(kept);
}

namespace {

struct Freed {
  MPI_Request request;
  std::uint64_t slot;
  bool persistent;
};
constinit HandleMap<Freed> freed;  // by slot
constinit std::atomic_flag polling = ATOMIC_FLAG_INIT;

void Release(MPI_Request request) {
  auto* release = NCCLWATCH_REAL(MPI_Request_free);
  if (release) release(&request);
}

void PollOne(Call& call, const Freed& one, bool gives_up) {
  int done = 0;
  MPI_Request request = one.request;
  auto* test = NCCLWATCH_REAL(MPI_Test);
  if (!test || (test(&request, &done, MPI_STATUS_IGNORE), !done && !gives_up)) return;
  if (!freed.Remove(one.slot, [](const Freed&) { return true; })) return;
  freed_requests.fetch_sub(1);
  if (done) EndBuffers(call, one.slot);
  if (one.persistent || !done) Release(request);
}

void PollAll(Call& call, bool gives_up) {
  if (polling.test_and_set(std::memory_order_acquire)) return;
  constexpr std::size_t kAtOnce = 64;
  Freed some[kAtOnce];
  std::size_t found = 0;
  freed.ForEach([&](std::uint64_t, const Freed& one) {
    if (found < kAtOnce) some[found++] = one;
  });
  for (std::size_t i = 0; i < found; ++i) PollOne(call, some[i], gives_up);
  polling.clear(std::memory_order_release);
}

}  // namespace

bool KeepFreed(Call& call, MPI_Request request) {
  Request known;
  Watched watched;
  if (!requests.Find(Bits(request), &known) || !known.active || !received.Find(known.slot, &watched)) return false;
  if (!freed.Put(known.slot, {.request = request, .slot = known.slot, .persistent = known.persistent})) return false;
  if (known.persistent) {
    kept_buffers.Remove(Bits(request), [](const SavedBuffers&) { return true; });
    received.Change(known.slot, [](Watched& there) { there.kept = false; });
  }
  freed_requests.fetch_add(1);
  static_cast<void>(call);
  return true;
}

void PollFreed(Call& call) {
  if (phase.load(std::memory_order_relaxed) == Phase::kRunning) PollAll(call, false);
}

void FreeKeptOnes(Call& finalize) {
  for (std::uint32_t before = ~0u; freed_requests.load() != 0 && freed_requests.load() < before;) {
    before = freed_requests.load();
    PollAll(finalize, true);
  }
}

bool AnyShadow() { return shadows.load(std::memory_order_relaxed) != 0; }

EndsInside::EndsInside(int count, const MPI_Request* all) : requests_(all), count_(count > 0 && all ? count : 0) {
  if (count_ > kFew) {
    void* memory = mmap(nullptr, static_cast<std::uint64_t>(count_) * sizeof(Row), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
      count_ = kFew;
    else
      rows_ = static_cast<Row*>(memory);
  }
  for (int i = 0; i < count_; ++i) {
    Request known;
    const bool open = all[i] != MPI_REQUEST_NULL && requests.Find(Bits(all[i]), &known) && known.active;
    rows_[i] = {all[i], open ? known.slot : kNoSlot, known.persistent};
  }
}

EndsInside::~EndsInside() {
  if (rows_ != few_) munmap(rows_, static_cast<std::uint64_t>(count_) * sizeof(Row));
}

void EndsInside::After(Call& call) {
  auto* ask = NCCLWATCH_REAL(MPI_Request_get_status);
  for (int i = 0; i < count_; ++i) {
    if (rows_[i].slot == kNoSlot) continue;
    int done = requests_[i] == MPI_REQUEST_NULL;
    if (rows_[i].persistent && ask) ask(rows_[i].request, &done, MPI_STATUS_IGNORE);
    if (!done) continue;
    open_buffers.Remove(rows_[i].slot);
    EndBuffers(call, rows_[i].slot);
  }
}

}  // namespace ncclwatch::shim::mpi
