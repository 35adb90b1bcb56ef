// What this process, while it leads, writes into its own black box: observations and the diagnosis.
#pragma once

#include <cstdint>

#include "core/reader/image.h"
#include "ncclwatch/format/black_box.h"

namespace ncclwatch::watch {

class Journal {
 public:
  explicit Journal(format::Header* own) : own_(own) {}

  // False if the section is full.
  bool Observe(const reader::Observation& observation);

  reader::LeaderState leader_state() const;
  void WriteState(const reader::LeaderState& leader_state);

 private:
  format::Header* own_;
};

}  // namespace ncclwatch::watch
