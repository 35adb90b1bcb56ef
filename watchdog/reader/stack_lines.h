// What the files about stacks have in common.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "watchdog/descriptors/directory.h"
#include "watchdog/reader/stacks.h"

namespace ncclwatch::reader {

// "process pid N start T rank R host H at_ns NS": pairs of name and value in any order, unknown names passed over; after
// the first word, and the whole line with its end.
std::optional<ProcessStacks> ParseProcessLine(std::string_view line);
std::string ProcessLine(const ProcessStacks& process);

// The rest of a line as text that may be printed and written again: what was cut and cleaned once stays as it is.
std::string LineText(std::string_view rest);

// Of a file in the directory, at most so many bytes; empty if it cannot be read.
std::string Beginning(const descriptors::Directory& directory, const std::string& name, std::size_t most);

}  // namespace ncclwatch::reader
