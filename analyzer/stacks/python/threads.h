// Python's own lists of interpreters, threads and frames. They are torn where the process runs meanwhile.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/stacks/python/layout.h"
#include "analyzer/stacks/python/python.h"
#include "analyzer/stacks/python/thread_ids.h"

namespace ncclwatch::stacks::python {

// Ends for any memory: what is read is bounded in number and size. `runtime` is the address of _PyRuntime. The version
// is left empty.
Stacks ReadThreads(Reader* memory, const Layout& layout, std::uint64_t runtime, const Tasks& tasks);

}  // namespace ncclwatch::stacks::python
