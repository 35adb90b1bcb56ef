// Where the debug information of a program or library is kept, if the file itself has none.
#pragma once

#include <string>
#include <vector>

namespace ncclwatch::stacks {

// What an ELF file says of its debug information.
struct DebugLink {
  std::string build_id;  // hexadecimal, empty if it has none
  std::string file;      // of .gnu_debuglink: a name without a folder, empty if it has none
};

// Paths to try, in this order: by build id below /usr/lib/debug and the installation's own lib/debug; by the link's
// name beside the file, in .debug/ there, and below /usr/lib/debug; what debuginfod's client has fetched before.
// Nothing is fetched.
std::vector<std::string> DebugFiles(const std::string& path, const DebugLink& link);

}  // namespace ncclwatch::stacks
