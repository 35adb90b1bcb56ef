// Mappings of files that others can cut short, or whose file system can run full: the next look at such a page is a
// SIGBUS in the host. What is enrolled here can be mended by a handler of that signal: zeroes take the place of the
// whole mapping, and its owner learns of it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ncclwatch::reader::guard {

// Number of the mapping, or -1 if there is no room: then it is not guarded. protection: as for mmap. Thread-safe.
int Enroll(const void* begin, std::size_t bytes, int protection);
// Before it is unmapped. -1 is nobody.
void Dismiss(int number);
// Whether it has been replaced by zeroes.
bool Lost(int number);

// A handler of SIGBUS that knows Mend() is in place.
void Arm();
// A thread of ours, born with all signals blocked, looks at such mappings: SIGBUS must reach it, since a fault while it
// is blocked ends the process. Called by the thread itself; nothing while no handler is in place.
void OpenThisThread();
// Async-signal-safe.
bool IsOurThread();

// Replaces the mapping that holds the address. Its number, or -1 if it is none of this process's. Async-signal-safe.
int Mend(std::uintptr_t address);

}  // namespace ncclwatch::reader::guard
