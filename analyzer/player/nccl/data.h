// What a call of NCCL reads and writes, and whether the right data have come.
#pragma once

#include "analyzer/player/base/play.h"
#include "ncclwatch/functions/pattern.h"

namespace ncclwatch::analyzer {

struct Amounts {
  std::size_t from = 0, into = 0;  // elements
};
Amounts AmountsOf(const player::Call& call, functions::Pattern pattern, const player::Communicator& on);

// A reduction of the program's making is played as a sum.
std::uint8_t KnownReduction(std::uint8_t reduction);

// The first `bytes` of what has come; of an AllGather all.
player::Listener::Data CheckArrived(const player::Call& call, const player::Communicator& on, const char* data,
                                    std::size_t bytes);

}  // namespace ncclwatch::analyzer
