// The exception that ends a Python program: read from sys.last_exc (or last_value) at the interpreter's own exit, by a
// C function among its atexit functions. No Python code of ours runs, nothing of the interpreter is replaced, and only
// its stable ABI is used, found at run time.
#pragma once

namespace ncclwatch::shim {

// Asks the interpreter, if there is one, to call us in its main thread when it comes to that. Returns at once.
void WatchPython();

// It was asked: AwaitEvents() is called then too.
bool PythonIsWatched();

}  // namespace ncclwatch::shim
