// One communicator: the operations of all its members that were recorded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "analyzer/import/inspector/operation.h"

namespace ncclwatch::analyzer::import::inspector {

struct Joined {
  std::int32_t size = 0;
  std::map<std::size_t, const std::vector<Operation>*> members;  // by row of the table
  std::map<std::int32_t, std::size_t> row_of;                    // by rank in it
  const std::vector<Operation>& first() const { return *members.begin()->second; }
};

}  // namespace ncclwatch::analyzer::import::inspector
