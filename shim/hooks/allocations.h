// Wrappers of the CUDA driver's allocating functions. They pass everything on and note what was refused for want of
// memory. CUDA's runtimes find the driver through dlsym and cuGetProcAddress, so what our dlsym answers covers them
// all; programs that link the driver itself reach the exported wrappers.
#pragma once

namespace ncclwatch::shim {

// What a caller who has found `real` under `name` shall get in its place: a wrapper around exactly that function, or
// `real` itself where the name is none of ours or there are no wrappers left. Takes no lock.
void* WrapperOf(const char* name, void* real);
// Whether WrapperOf would give something else.
bool IsAllocation(const char* name);

}  // namespace ncclwatch::shim
