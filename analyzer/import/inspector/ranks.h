// Which job rank each process is: its rank in the communicator of all of them.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "analyzer/import/inspector/read.h"
#include "watchdog/reader/box.h"

namespace ncclwatch::analyzer::import::inspector {

struct Ranks {
  std::vector<reader::BoxImage> boxes;   // by rank
  std::map<Member, std::size_t> row_of;  // index into them; members that no one rank can be told for are missing
  std::vector<std::string> notes;
};
Ranks FindRanks(const Recording& recording);

// "0x7f8c496ae9f661" as a number; of other text its hash.
std::uint64_t IdentityOf(const std::string& communicator);

}  // namespace ncclwatch::analyzer::import::inspector
