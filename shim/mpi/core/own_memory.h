// The memory of this process as operations use it: what is in a piece of it, and whether it belongs to a window, in
// which others may write at any time.
#pragma once

#include <cstdint>

#include "shim/mpi/core/open_buffers.h"

namespace ncclwatch::shim::mpi {

// A device's memory, or none at all, cannot be read: then nothing is said, and nothing is written either.
bool HashOf(const Piece& piece, std::uint64_t* hash);

// bytes < 0: which memory is the window's is not known, and any may be. shared: other processes may store there.
void NoteWindowMemory(std::uint64_t window, const void* base, std::int64_t bytes, bool shared = false);
void ForgetWindowMemory(std::uint64_t window);
bool IsWindows(const Piece& piece);
// The memory of the window, if it is no other window's, and this process alone stores there.
bool OnlyOwners(std::uint64_t window, Piece* memory);
std::uint64_t WindowsMade();

}  // namespace ncclwatch::shim::mpi
