#include "shim/mpi/objects/objects.h"

namespace ncclwatch::shim::mpi {

constinit HandleMap<Life> lives[kOwnMaps];

namespace {

constinit FreedOnes freed[kOwnMaps];
constinit std::atomic<bool> out_of_sight[kObjectKinds] = {};

}  // namespace

void LoseSight(ObjectKind kind) { out_of_sight[static_cast<std::size_t>(kind)].store(true, std::memory_order_relaxed); }
void LoseSightOfAll() {
  for (std::atomic<bool>& lost : out_of_sight) lost.store(true, std::memory_order_relaxed);
}
bool InSight(ObjectKind kind) { return !out_of_sight[static_cast<std::size_t>(kind)].load(std::memory_order_relaxed); }

void NoteMade(const Call& call, ObjectKind kind, std::uint64_t handle) {
  HandleMap<Life>& map = lives[static_cast<std::size_t>(kind)];
  Life life;
  const bool known = map.Find(handle, &life);
  const bool again = known && life.references > 0;
  if (known && !again) freed[static_cast<std::size_t>(kind)].CameAgain();
  life = {.made_at = call.site,
          .made_by = static_cast<std::uint32_t>(call.function),
          .references = again ? life.references + 1 : 1};
  map.Put(handle, life);
}

void NoteFreed(const Call& call, ObjectKind kind, std::uint64_t handle) {
  HandleMap<Life>& map = lives[static_cast<std::size_t>(kind)];
  Life life;
  if (!map.Find(handle, &life)) return;  // it was not made here, and may be given out again where nobody sees it
  if (life.references > 0) --life.references;
  if (life.references == 0) {
    if (life.freed_at == 0 && !freed[static_cast<std::size_t>(kind)].KeepOneMore()) {
      map.Remove(handle, [](const Life&) { return true; });
      return;
    }
    life.freed_at = call.site;
    life.freed_by = static_cast<std::uint32_t>(call.function);
  }
  map.Put(handle, life);
}

bool WasFreed(ObjectKind kind, std::uint64_t handle, Life* life) {
  return InSight(kind) && lives[static_cast<std::size_t>(kind)].Find(handle, life) && life->freed_at != 0;
}

bool IsAlive(ObjectKind kind, std::uint64_t handle) {
  Life life;
  return InSight(kind) && lives[static_cast<std::size_t>(kind)].Find(handle, &life) && life.references > 0;
}

}  // namespace ncclwatch::shim::mpi
