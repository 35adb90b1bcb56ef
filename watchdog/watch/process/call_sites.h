// Names for the call sites of the own process, written into its black box while there is a memory map to read.
// /proc/self/maps, never dladdr: that takes the loader's lock, which the host may hold for ever.
#pragma once

#include <cstdint>

#include "ncclwatch/format/black_box.h"

namespace ncclwatch::watch {

class CallSites {
 public:
  explicit CallSites(format::Header* own) : own_(own) {}
  // Looks at the newest records since the last time, at most so many. Reads the memory map only if one has an unknown
  // call site.
  static constexpr std::uint64_t kNow = 2048, kAtTheEnd = UINT64_MAX;
  void Update(std::uint64_t most = kNow);

 private:
  bool Known(std::uint64_t address) const;
  std::uint64_t NativeOf(std::uint64_t site) const;
  void Name(std::uint64_t address);
  void ReportTrouble();

  format::Header* own_;
  std::uint64_t looked_at_ = 0;  // slots before this one
  std::uint32_t used_ = 0;
  bool reported_ = false;
};

}  // namespace ncclwatch::watch
