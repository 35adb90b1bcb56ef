// One operation as a line of NCCL Inspector tells it.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "ncclwatch/functions/function.h"

namespace ncclwatch::analyzer::import::inspector {

// Who: one rank of one communicator, in one process.
struct Member {
  std::string communicator;  // "0x7f8c496ae9f661": what is left of a hash, equal on all its ranks
  std::string label;         // empty: none
  std::string host;
  std::uint32_t pid = 0;
  std::int32_t rank = -1, size = 0;  // in the communicator
  auto operator<=>(const Member&) const = default;
};

struct Operation {
  functions::Function function{};
  bool is_message = false;
  std::uint64_t number = 0;     // of a collective: among those of its kind on the communicator, small ones counted too
  std::int32_t peer = -1;       // of a message: rank in the communicator
  std::uint64_t bytes = 0;      // that one rank passes
  std::int64_t kernel_ns = 0;   // on the GPU, waiting for peers included; 0: not timed there
  std::int64_t called_ns = 0;   // CLOCK_REALTIME, of a verbose line; 0: not told
  std::int64_t written_ns = 0;  // ... when the line was written, with others
};

struct Line {
  Member member;
  Operation operation;
};

// Whether a text begins like such lines; what follows may be cut off.
bool LooksLikeLine(std::string_view text);

// Unimplemented: an operation that is not known here. Keys that are not known are passed over.
absl::StatusOr<Line> ParseLine(std::string_view text);

}  // namespace ncclwatch::analyzer::import::inspector
