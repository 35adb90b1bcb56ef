// The process's memory as it was last seen, in its own black box: when the kernel has killed it for want of it, nobody
// can ask any more.
#pragma once

#include <cstdint>

#include "ncclwatch/format/black_box.h"

namespace ncclwatch::watch {

class MemoryFigures {
 public:
  explicit MemoryFigures(format::Header* own);
  // At every tick; a few microseconds.
  void Update(std::int64_t now_ns);

 private:
  format::Words* const words_;
  const std::uint64_t page_bytes_;
  std::int64_t host_at_ns_ = 0;
};

}  // namespace ncclwatch::watch
