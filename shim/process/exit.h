// Noticing that the process ends in an orderly way, and with which status.
#pragma once

#include <cstdint>

namespace ncclwatch::shim {

// A handler of exit(), once per program: fork children inherit it. _exit and _Exit are interposed. quick_exit() tells
// its handlers no status and is left to the eyes of others.
void CatchExits();

// What else is to be done where the program or a library calls _exit() or, with MPI, exit(), which returns to `site`.
// refused: MPI ends the process over a call with an error of the class `status`. Not there in the library for NCCL
// alone.
[[gnu::weak]] void BeforeEnd(std::uint64_t site, int status, bool refused = false);
// Before the first of these calls, once the core is open.
[[gnu::weak]] void PrepareForEnd();

}  // namespace ncclwatch::shim
