// Looking up a symbol in a loaded module by its own tables, where nothing of the C library may be needed: its dlsym is
// what is looked for.
#pragma once

#include <link.h>

namespace ncclwatch::shim::preload {

// A function that the module defines under this name, in its default version. Null: none. `info` is as
// dl_iterate_phdr gives it.
void* FindSymbol(const dl_phdr_info& info, const char* name);

}  // namespace ncclwatch::shim::preload
