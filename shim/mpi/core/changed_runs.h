// Which bytes of a memory have changed: as few runs as there are, in order, and no byte that is as it was.
#pragma once

#include <cstring>

#include "ncclwatch/format/stores.h"

namespace ncclwatch::shim::mpi {

class ChangedRuns {
 public:
  // The bytes from `at` on; pieces come in order. False: there is no room for another run.
  bool Compare(const unsigned char* before, const unsigned char* now, std::uint64_t bytes, std::uint64_t at) {
    if (std::memcmp(before, now, bytes) == 0) return true;
    for (std::uint64_t i = 0; i < bytes; ++i)
      if (before[i] != now[i] && !Add(static_cast<std::uint32_t>(at + i))) return false;
    return true;
  }

  std::uint32_t count() const { return count_; }
  const format::Stored& operator[](std::uint32_t i) const { return runs_[i]; }

 private:
  bool Add(std::uint32_t at) {
    if (count_ != 0 && runs_[count_ - 1].begin + runs_[count_ - 1].bytes == at) {
      ++runs_[count_ - 1].bytes;
      return true;
    }
    if (count_ == format::kMostStores) return false;
    runs_[count_++] = {at, 1};
    return true;
  }

  format::Stored runs_[format::kMostStores];
  std::uint32_t count_ = 0;
};

}  // namespace ncclwatch::shim::mpi
