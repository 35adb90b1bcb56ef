// Lists in variables and files, apart.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ncclwatch::doctor {

// Without empty parts, and without white space around each.
std::vector<std::string> Split(std::string_view text, std::string_view separators);
std::string Lower(std::string text);
std::string Joined(const std::vector<std::string>& parts, std::string_view separator = ", ");
// As NCCL and PyTorch read it.
bool SaysYes(std::string_view value);

}  // namespace ncclwatch::doctor
