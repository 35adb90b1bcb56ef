// From a place in a code object to the line of its source.
#pragma once

#include <cstdint>
#include <string_view>

namespace ncclwatch::cpython {

// `table` is co_lnotab of 3.9, co_linetable of 3.10, the location table of 3.11 and later; `offset` is in bytes from
// the first instruction (below 0: before it). 0 if the instruction has no line, or the table ends before it.
int LineAt(int minor, std::string_view table, int first_line, std::int64_t offset);

}  // namespace ncclwatch::cpython
