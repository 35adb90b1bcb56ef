// Names of the functions that allocate, by their number in black boxes, without any header of CUDA.
#pragma once

#include <cstdint>
#include <string_view>

#include "ncclwatch/format/last_words.h"

namespace ncclwatch::functions {

struct AllocationInfo {
  std::uint32_t number;
  std::string_view name;  // "cuMemAlloc"
  bool on_host;           // pinned memory of the host
};

inline constexpr AllocationInfo kAllocations[] = {
#define ALLOCATION(number, symbol, plain, ...) \
  {number, plain, std::string_view(plain).find("Host") != std::string_view::npos},
#include "ncclwatch/functions/cuda.def"
    {format::kNcclMemAlloc, "ncclMemAlloc", false},
};

constexpr AllocationInfo Allocation(std::uint32_t number) {
  for (const AllocationInfo& info : kAllocations)
    if (info.number == number) return info;
  return {number, "an allocation", false};
}

}  // namespace ncclwatch::functions
