// The addresses of the wrappers, by library: what our dlsym answers.
#pragma once

#include <cstdint>
#include <string_view>

#include "ncclwatch/functions/function.h"

namespace ncclwatch::shim {

// The row of the table, null if the name has none.
const functions::FunctionInfo* FindEntry(std::string_view name);
// Library 0's wrappers are the exported functions themselves.
void* Entry(std::uint32_t library, functions::Function function);

}  // namespace ncclwatch::shim
