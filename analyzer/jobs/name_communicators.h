// Names that programs give to communicators through their framework: torch's process groups, read from outside.
#pragma once

#include <string>

namespace ncclwatch::analyzer {

// Into the box itself, as labels of the communicators that have none: every reader of the box then shows them. Only a
// box of the caller's own, of a process that lives here. Empty, or in one line why not.
std::string NameCommunicators(const std::string& box);

}  // namespace ncclwatch::analyzer
