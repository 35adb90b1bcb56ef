// A step that makes one call several times, as the buckets of equal size of a gradient: the calls do not tell where
// steps begin, their times do. Pure.
#pragma once

#include <cstdint>
#include <vector>

namespace ncclwatch::diagnosis {

struct CallTime {
  std::uint64_t number = 0;  // counted from 0
  std::int64_t at_ns = 0;
};

// A step is so many calls, and begins with those whose number, divided by it, leaves `first`.
struct Burst {
  std::uint64_t calls = 1;
  std::uint64_t first = 0;
  bool operator==(const Burst&) const = default;
};

// Of equal calls in their order: nearly always the longest pause comes after the same one of so many.
Burst FindBurst(const std::vector<CallTime>& calls);

// Where the numbers do not help, because a checkpoint after every twentieth burst adds a call: how many calls most
// bursts have, each followed by a pause that is many times as long as those within. 0: there are none.
std::uint64_t CallsOfABurst(const std::vector<std::int64_t>& times_ns);

}  // namespace ncclwatch::diagnosis
