// The C library's own dlsym: ours is in front of it.
#pragma once

namespace ncclwatch::shim::resolve {

using DlsymFunction = void* (*)(void*, const char*);

// Found at the first call of anybody's, maybe before any constructor ran. A plain call of it: RTLD_NEXT then means
// "after this library".
DlsymFunction RealDlsym();

}  // namespace ncclwatch::shim::resolve
