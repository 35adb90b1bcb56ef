#include "shim/mpi/buffers.h"

#include <cstring>

#include "shim/mpi/datatypes.h"
#include "shim/mpi/handle_map.h"
#include "shim/mpi/misuse.h"

namespace ncclwatch::shim::mpi {
namespace {

struct Watched {
  const void* buffer = nullptr;
  std::uint64_t bytes = 0;
  std::uint64_t hash = 0;
  std::uint64_t begun_at = 0;
  std::uint32_t function = 0;
};
constinit HandleMap<Watched> watched;  // by the slot of the send's record

std::uint64_t HashOf(const void* buffer, std::uint64_t bytes) {
  const auto* at = static_cast<const unsigned char*>(buffer);
  std::uint64_t hash = bytes, word = 0;
  for (; bytes >= sizeof word; bytes -= sizeof word, at += sizeof word) {
    std::memcpy(&word, at, sizeof word);
    hash = format::Mix(hash, word);
  }
  word = 0;
  std::memcpy(&word, at, bytes);
  return format::Mix(hash, word);
}

}  // namespace

void WatchBuffer(const Call& call) {
  if (!call.buffer || call.bytes == 0 || call.slot == kNoSlot || (call.flags & format::kNoPartner)) return;
  watched.Put(call.slot, {.buffer = call.buffer,
                          .bytes = call.bytes,
                          .hash = HashOf(call.buffer, call.bytes),
                          .begun_at = call.site,
                          .function = static_cast<std::uint32_t>(call.function)});
}

void CheckBufferOf(Call& ends, std::uint64_t slot) {
  Watched send;
  if (slot == kNoSlot || !watched.Find(slot, &send)) return;
  watched.Remove(slot, [](const Watched&) { return true; });
  if (HashOf(send.buffer, send.bytes) != send.hash)
    Report(ends, {.wrong = Wrong::kBufferTouched,
                  .made_at = send.begun_at,
                  .made_by = static_cast<functions::Function>(send.function)});
}

}  // namespace ncclwatch::shim::mpi
