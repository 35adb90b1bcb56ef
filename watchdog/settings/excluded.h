// Programs that are left alone: NCCLWATCH_EXCLUDE and the administrator's `exclude` lines.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ncclwatch::settings {

// What a program is known by: its file (`executable`, a path), its first word, and for Python its script or module.
// `words` is the command line as the kernel keeps it, each word ended by a zero byte.
std::vector<std::string> NamesOfProgram(std::string_view executable, std::string_view words);

// A name of the list, comma-separated with `*` for any characters, is one of these. A name with a slash is compared
// with whole paths, any other with their last parts.
bool IsAmong(std::string_view list, const std::vector<std::string>& names);

// For this process. Looks at nothing where the list is empty.
bool IsExcluded(std::string_view list);

}  // namespace ncclwatch::settings
