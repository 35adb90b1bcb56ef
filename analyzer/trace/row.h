// One recorded call as `ncclwatch trace` shows it: copied out of its box, with names instead of numbers.
#pragma once

#include <absl/time/time.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/trace/facts.h"
#include "core/model/finding.h"
#include "core/reader/image.h"

namespace ncclwatch::analyzer {

struct Row {
  absl::Time time;  // when the call was entered: comparable between nodes
  int rank = -1;    // job rank; of the communicator where the launcher named none
  std::string host;
  std::uint32_t pid = 0;
  std::uint64_t slot = 0;
  std::uint32_t thread = 0;
  std::uint64_t communicator = 0;                  // identity, 0 none
  std::optional<std::uint32_t> communicator_rank;  // of the caller
  std::string label;
  std::optional<std::uint64_t> position;
  std::string op;
  std::optional<std::uint64_t> count;
  std::optional<std::uint64_t> bytes;  // of count elements; of MPI also where those are of several types
  std::string dtype;                   // empty: none, as for reduction and result
  std::string reduction;
  std::string payload;
  std::optional<int> root;
  std::optional<int> peer;  // rank in the communicator
  std::uint64_t stream = 0;
  std::optional<std::uint64_t> group;  // slot of the outermost ncclGroupStart
  std::string state;                   // entered, returned, started, finished, failed
  bool pending = false;                // entered, or launched and known not to have finished
  std::optional<absl::Time> returned;
  absl::Duration duration;    // inside the call; of a pending one until `now`
  format::KernelTime kernel;  // of NCCL, where it was timed
  std::string result;
  std::uint64_t site = 0;
  std::string site_text;  // "module+0x1234", or the address
  std::optional<diagnosis::SourcePlace> source;
  std::vector<std::string> flags;  // captured, non_blocking, ...
};

// Without the names of its call site (trace/sites.h).
Row RowOf(const Facts& facts);

}  // namespace ncclwatch::analyzer
