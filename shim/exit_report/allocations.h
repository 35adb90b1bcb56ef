// Allocations of device or pinned memory that failed, and whether the application got over it.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>

namespace ncclwatch::shim {

struct Box;

// Asked for at least as many bytes as this, an allocation that succeeds shows that the last failed one was got over.
// Above all sizes while none has failed: what every successful allocation costs is one comparison.
extern std::atomic<std::uint64_t> awaited_bytes;

// CUDA refused the bytes for want of memory. real: the function that refused; row: in functions/cuda.def; device: -1
// for that of the current context. Asks the driver how much there is, which changes nothing that the application can
// see.
void NoteFailedAllocation(void* real, std::uint32_t row, std::uint64_t bytes, int result, int device);
void NoteFailedMemAlloc(Box& box, std::uint64_t bytes, int result);
// An allocation that is large enough has succeeded, by the function `real`.
void NoteRecovery(void* real);

}  // namespace ncclwatch::shim
