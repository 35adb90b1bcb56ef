// One input as the dump of two of three ranks, the third being an honest one: all that diagnose does with them.
#pragma once

#include <cstdint>
#include <string_view>

namespace ncclwatch::testing {

void DiagnoseDump(std::string_view bytes);

}  // namespace ncclwatch::testing
