// Which job rank each process is: its rank in the communicator of all of them.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "analyzer/import/inspector/read.h"
#include "core/reader/box.h"

namespace ncclwatch::analyzer::import::inspector {

struct Ranks {
  std::vector<reader::BoxImage> boxes;   // by rank
  std::map<Member, std::size_t> row_of;  // index into them; members that no one rank can be told for are missing
  std::vector<std::string> notes;
};

Ranks FindRanks(const Recording& recording);

}  // namespace ncclwatch::analyzer::import::inspector
