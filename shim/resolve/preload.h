// The preloaded file, which stands in front of everybody where this core does not (shim/preload/core.h).
#pragma once

#include "shim/preload/core.h"

namespace ncclwatch::shim::resolve {

// Set once, before any wrapper is called.
extern const preload::Preload* front;

// The C library's own dlsym, or that of another preload behind ours.
inline void* Dlsym(void* handle, const char* name) { return front->dlsym(handle, name); }
// Behind the preloaded file in load order, as RTLD_NEXT there.
inline void* Next(const char* name) { return front->next(name); }

// Whether an address lies in the preloaded file or in the core.
bool IsOurs(const void* address);

}  // namespace ncclwatch::shim::resolve
