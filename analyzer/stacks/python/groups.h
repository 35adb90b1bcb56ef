// The process groups of torch.distributed in another process, with the names that the program gave them, and which of
// its communicators belong to them. Reads memory alone, as python.h does.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/stacks/base/memory.h"
#include "analyzer/stacks/base/modules.h"
#include "watchdog/cpython/layout.h"

namespace ncclwatch::stacks::python {

using namespace cpython;

struct ProcessGroup {
  std::string name;  // for people; empty: the program gave it none
  std::uint32_t size = 0;
  std::int32_t rank = -1;  // of this process in it, -1 if it could not be read
  std::vector<std::uint64_t> handles;
  std::uint64_t object = 0;  // its address
  bool operator==(const ProcessGroup&) const = default;
};

// handles: of the communicators that are asked about.
std::vector<ProcessGroup> ReadGroups(int pid, Modules* modules, const std::vector<std::uint64_t>& handles = {});
// The same of any memory. `runtime` is the address of _PyRuntime.
std::vector<ProcessGroup> ReadGroups(Reader* memory, const Layout& layout, std::uint64_t runtime,
                                     const std::vector<std::uint64_t>& handles);

}  // namespace ncclwatch::stacks::python
