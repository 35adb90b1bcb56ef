// The page around its data: page/*, put together by page/assemble.py when the command is built.
#pragma once

#include <string_view>

namespace ncclwatch::analyzer::page {

extern const std::string_view kBeforeData, kAfterData;

}  // namespace ncclwatch::analyzer::page
