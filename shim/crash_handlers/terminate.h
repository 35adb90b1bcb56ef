// What std::terminate() ends: the exception that nobody caught. A handler in the C++ library of the application,
// chained: what it replaces runs next (usually the one that prints "terminate called after throwing ..." and aborts).
#pragma once

namespace ncclwatch::shim {

// Once per program. Nothing where the application brings no libstdc++ of its own that can be found.
void CatchTerminate();

}  // namespace ncclwatch::shim
