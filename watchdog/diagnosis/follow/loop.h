// What a live box's calls repeat, and which of them count its steps.
#pragma once

#include <cstdint>
#include <optional>

#include "watchdog/reader/box.h"

namespace ncclwatch::diagnosis {

struct Loop {
  std::uint64_t communicator = 0;  // identity: of those that come back in every step the largest one
  std::uint32_t size = 0;          // its ranks
  std::uint64_t each = 0;          // its collectives in one step
  bool sure = false;               // not perhaps a layer of a first, long step
};

// Of the newest records, `most` at most. Expensive: microseconds a record.
std::optional<Loop> FindLoop(const reader::MappedBox& box, std::uint64_t most);

// 0: what is called there cannot be matched with other ranks' calls.
std::uint64_t IdentityOf(const reader::MappedBox& box, std::uint32_t index, std::uint32_t generation);

}  // namespace ncclwatch::diagnosis
