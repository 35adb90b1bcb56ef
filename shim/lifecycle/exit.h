// Noticing that the process ends in an orderly way, and with which status.
#pragma once

namespace ncclwatch::shim {

// A handler of exit(), once per program: fork children inherit it. _exit and _Exit are interposed. quick_exit() tells
// its handlers no status and is left to the eyes of others.
void CatchExits();

}  // namespace ncclwatch::shim
