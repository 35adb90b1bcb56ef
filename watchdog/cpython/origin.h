// Whose code a Python file is.
#pragma once

#include <cstdint>
#include <string_view>

namespace ncclwatch::cpython {

// In rising order of what a reader wants to see of a stack.
enum class Origin : std::uint8_t { kStandard, kPackage, kProgram };

// By its name alone. Code that a package generates ("<eval_with_key>.3", torch.compile's files) is the package's; code
// that the program gives to exec() under a name of its own is the program's.
Origin OriginOf(std::string_view file);

// Whether a function of the program is a backend of torch.distributed: torch calls it to carry out a collective, to
// wait for one, or to make the backend. `caller`: the file of the frame that called it; empty: it was called from C++.
bool IsBackend(std::string_view qualified_name, std::string_view caller);

}  // namespace ncclwatch::cpython
