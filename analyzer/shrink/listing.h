// The statements of each rank as the body of one program.
#pragma once

#include <string>
#include <vector>

namespace ncclwatch::analyzer {

using Statements = std::vector<std::string>;  // in C, without indentation

// Lines of it, indented by two spaces: what all ranks do alike first and last, in between a branch for each group of
// ranks that do the same. Repeats become a loop. `rank` is the variable that holds the rank.
std::string BodyOf(const std::vector<Statements>& ranks);

}  // namespace ncclwatch::analyzer
