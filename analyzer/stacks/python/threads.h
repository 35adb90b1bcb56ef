// Python's own lists of interpreters, threads and frames. They are torn where the process runs meanwhile.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/stacks/base/memory.h"
#include "analyzer/stacks/python/python.h"
#include "watchdog/cpython/layout.h"

namespace ncclwatch::stacks::python {

using namespace cpython;

// From what Python knows of a thread to its number in /proc.

// The threads of a process: as it knows them itself (in its own pid namespace) -> as we see them in /proc.
using Tasks = absl::flat_hash_map<std::int32_t, int>;
Tasks TasksOf(int pid);

// Where the C library's thread descriptor, which pthread_t points to, has the thread's number: the place at which most
// of these descriptors have a task's, each its own. kNoTidOffset if none has.
inline constexpr std::uint64_t kNoTidOffset = UINT64_MAX;
std::uint64_t FindTidOffset(Reader* memory, const std::vector<std::uint64_t>& descriptors, const Tasks& tasks);

// Ends for any memory: what is read is bounded in number and size. `runtime` is the address of _PyRuntime. The version
// is left empty.
Stacks ReadThreads(Reader* memory, const Layout& layout, std::uint64_t runtime, const Tasks& tasks,
                   Want want = Want::kLines);

}  // namespace ncclwatch::stacks::python
