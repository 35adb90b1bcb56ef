// Which calls of different ranks are the same one, where traces do not number them: windows begin a little apart.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/import/kineto/process.h"

namespace ncclwatch::analyzer::import::kineto {

struct Aligned {
  std::vector<std::string> unmatched;  // groups whose calls cannot be told to be the same, by their names
};

// Windows of one moment, at most one of each rank. Gives positions to their collectives and messages, from `first` on,
// and tells each group where the others' windows begin and end.
Aligned Align(std::uint64_t first, const std::vector<Window*>& windows);

}  // namespace ncclwatch::analyzer::import::kineto
