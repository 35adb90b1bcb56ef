// Looks at ranks while the others wait for them, a few times in each of several waits, and at some of them at random
// times; then no more.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "core/reader/beside/meanwhile.h"

namespace ncclwatch::meanwhile {

struct Target {
  int pid = 0;
  std::uint64_t start_time = 0;  // which process that pid was; 0: whichever has it
  std::int64_t late_ns = 0;      // by which it is late, about; 0: it is not, and is looked at for comparison
};

// directory: the run directory, whose black boxes tell who is waited for. Of each target that could be looked at; of
// those for which nobody waited without samples. At random times the first late one is looked at, and those for
// comparison. Takes `limit` at most.
std::vector<reader::Meanwhile> Sample(const std::string& directory, const std::vector<Target>& targets,
                                      std::chrono::nanoseconds limit);

}  // namespace ncclwatch::meanwhile
