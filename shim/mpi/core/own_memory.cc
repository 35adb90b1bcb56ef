#include "shim/mpi/core/own_memory.h"

#include <algorithm>
#include <cstring>

#include "ncclwatch/format/fingerprint.h"
#include "shim/base/self_memory.h"
#include "shim/mpi/core/handle_map.h"

namespace ncclwatch::shim::mpi {
namespace {

struct Memory {
  Piece piece = {};
  bool shared = false;
};
constinit HandleMap<Memory> window_memory;
constinit std::atomic<bool> any_memory_is_a_windows{false};
constinit std::atomic<std::uint64_t> windows_made{0};

}  // namespace

bool HashOf(const Piece& piece, std::uint64_t* hash) {
  constexpr std::uint64_t kBlock = 4096;
  alignas(8) unsigned char block[kBlock];
  *hash = piece.bytes();
  for (std::uintptr_t at = piece.begin; at < piece.end; at += kBlock) {
    const std::uint64_t bytes = std::min<std::uint64_t>(kBlock, piece.end - at);
    if (!ReadSelf(at, block, bytes)) return false;
    std::memset(block + bytes, 0, -bytes % 8);
    for (std::uint64_t i = 0; i < bytes; i += 8) {
      std::uint64_t word;
      std::memcpy(&word, block + i, sizeof word);
      *hash = format::Mix(*hash, word);
    }
  }
  return true;
}

void NoteWindowMemory(std::uint64_t window, const void* base, std::int64_t bytes, bool shared) {
  const auto begin = reinterpret_cast<std::uintptr_t>(base);
  const Memory memory{{begin, begin + static_cast<std::uint64_t>(bytes)}, shared};
  if (bytes < 0 || !window_memory.Put(window, memory)) any_memory_is_a_windows.store(true, std::memory_order_relaxed);
  windows_made.fetch_add(1);
}

void ForgetWindowMemory(std::uint64_t window) {
  window_memory.Remove(window, [](const Memory&) { return true; });
}

bool IsWindows(const Piece& piece) {
  bool is = any_memory_is_a_windows.load(std::memory_order_relaxed);
  window_memory.ForEach([&](std::uint64_t, const Memory& memory) { is = is || memory.piece.Overlaps(piece); });
  return is;
}

bool OnlyOwners(std::uint64_t window, Piece* memory) {
  Memory own;
  if (any_memory_is_a_windows.load(std::memory_order_relaxed) || !window_memory.Find(window, &own) || own.shared)
    return false;
  bool alone = true;
  window_memory.ForEach([&](std::uint64_t other, const Memory& theirs) {
    alone = alone && (other == window || !theirs.piece.Overlaps(own.piece));
  });
  *memory = own.piece;
  return alone;
}

std::uint64_t WindowsMade() { return windows_made.load(); }

}  // namespace ncclwatch::shim::mpi
