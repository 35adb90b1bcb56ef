#include "shim/mpi/requests/origins.h"

#include <atomic>

#include "shim/mpi/core/handle_map.h"
#include "shim/mpi/core/misuse.h"
#include "shim/mpi/core/own_memory.h"
#include "shim/mpi/objects/objects.h"

namespace ncclwatch::shim::mpi {
namespace {

// Accesses at once: of more nothing is said, and those that end them have no more than these to go through.
constexpr std::uint32_t kMostAtOnce = 4096;

struct Sent {
  Piece pieces[OriginBuffers::kMost] = {};
  std::uint64_t hash = 0;
  std::uint64_t begun_at = 0;
  std::uint32_t function = 0;
  std::uint32_t window = 0;
  std::uint32_t generation = 0;
  std::int32_t target = 0;

  bool IsOn(const Call& call) const { return window == call.index && generation == call.generation; }
};
constinit HandleMap<Sent> sent;  // by slot
constinit std::atomic<std::uint32_t> open{0};

bool HashAll(const Sent& one, std::uint64_t* hash) {
  *hash = 0;
  for (const Piece& piece : one.pieces) {
    std::uint64_t its;
    if (!HashOf(piece, &its)) return false;
    *hash = format::Mix(*hash, its);
  }
  return true;
}

bool AnyIsWindows(const Sent& one) {
  for (const Piece& piece : one.pieces)
    if (!piece.empty() && IsWindows(piece)) return true;
  return false;
}

bool Remove(std::uint64_t slot) {
  if (!sent.Remove(slot, [](const Sent&) { return true; })) return false;
  open.fetch_sub(1);
  return true;
}

// Another thread may end the access too, and its program go on to write: what was read counts if nobody had ended it.
void End(Call& ends, std::uint64_t slot, const Sent& one) {
  std::uint64_t hash = 0;
  const bool readable = HashAll(one, &hash);
  if (!Remove(slot) || !readable || hash == one.hash || AnyIsWindows(one)) return;
  if (!InSight(ObjectKind::kRequest) || !InSight(ObjectKind::kWindow)) return;
  Report(ends, {.wrong = Wrong::kBufferTouched,
                .made_at = one.begun_at,
                .made_by = static_cast<functions::Function>(one.function)});
}

template <class Is, class Do>
void ForEachThat(const Is& is, const Do& act) {
  constexpr std::size_t kAtOnce = 64;
  struct Found {
    std::uint64_t slot;
    Sent sent;
  };
  for (std::uint32_t round = 0; open.load() != 0 && round <= kMostAtOnce / kAtOnce; ++round) {
    Found found[kAtOnce];
    std::size_t count = 0;
    sent.ForEach([&](std::uint64_t slot, const Sent& one) {
      if (count < kAtOnce && is(one)) found[count++] = {slot, one};
    });
    for (std::size_t i = 0; i < count; ++i) act(found[i].slot, found[i].sent);
    if (count < kAtOnce) return;
  }
}

}  // namespace

void OriginBuffers::Add(Use use, const void* buffer, std::uint64_t count, MPI_Datatype type) {
  Footprint one(call_, false);
  one.Add(use, buffer, count, type);
  if (one.of(use).empty() && count == 0) return;
  if (!one.all(use) || (use == Use::kRead && pieces_ == kMost))
    missed_ = true;
  else if (use == Use::kRead)
    sent_[pieces_++] = one.of(use);
  else
    result_ = one.of(use);
}

void OriginBuffers::Watch(int target) const {
  if (missed_ || pieces_ == 0 || target < 0 || call_.misuse || call_.slot == kNoSlot) return;
  if (call_.index == format::kNoCommunicator || open.load(std::memory_order_relaxed) >= kMostAtOnce) return;
  Sent one{.begun_at = call_.site,
           .function = static_cast<std::uint32_t>(call_.function),
           .window = call_.index,
           .generation = call_.generation,
           .target = target};
  for (int i = 0; i < pieces_; ++i) {
    if (sent_[i].Overlaps(result_)) return;
    one.pieces[i] = sent_[i];
  }
  if (AnyIsWindows(one) || !HashAll(one, &one.hash)) return;
  open.fetch_add(1);
  if (!sent.Put(call_.slot, one)) open.fetch_sub(1);
}

void EndOrigin(Call& ends, std::uint64_t slot) {
  Sent one;
  if (open.load(std::memory_order_relaxed) != 0 && sent.Find(slot, &one)) End(ends, slot, one);
}

void EndOrigins(Call& ends) {
  ForEachThat([&](const Sent& one) { return one.IsOn(ends); },
              [&](std::uint64_t slot, const Sent& one) { End(ends, slot, one); });
}

void EndOriginsAt(Call& ends, int target) {
  ForEachThat([&](const Sent& one) { return one.IsOn(ends) && one.target == target; },
              [&](std::uint64_t slot, const Sent& one) { End(ends, slot, one); });
}

void ForgetOrigins(const Call& free) {
  ForEachThat([&](const Sent& one) { return one.IsOn(free); }, [&](std::uint64_t slot, const Sent&) { Remove(slot); });
}

}  // namespace ncclwatch::shim::mpi
