#include "shim/mpi/record/persistent.h"

#include "ncclwatch/format/fingerprint.h"
#include "shim/mpi/core/handle_map.h"

namespace ncclwatch::shim::mpi {
namespace {

// Collectives made on a communicator, by its place in the table, which another one may have by now.
struct PersistentOnes {
  std::uint32_t generation;
  std::uint32_t number;
};
constinit HandleMap<PersistentOnes> persistent_ones;

}  // namespace

void NumberPersistent(Call& call) {
  if (call.index == format::kNoCommunicator) return;
  std::uint32_t number = 0;
  persistent_ones.Put(call.index, [&](PersistentOnes& there, bool known) {
    number = known && there.generation == call.generation ? there.number + 1 : 1;
    there = {call.generation, number};
  });
  call.signature = static_cast<std::uint32_t>(format::Mix(call.signature, number)) | 1;
  call.tag = static_cast<std::int32_t>(number);
}

bool HasPersistent(const Call& call) {
  PersistentOnes there;
  return persistent_ones.Find(call.index, &there) && there.generation == call.generation;
}

}  // namespace ncclwatch::shim::mpi
