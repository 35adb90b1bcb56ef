// Where calls were made: of the stacks in a dump the innermost line that is not torch's own, named in the box.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/import/words.h"
#include "watchdog/reader/box.h"

namespace ncclwatch::analyzer::import {

class CallSites {
 public:
  CallSites(const Tree& tree, Words* words, reader::BoxImage* box)
      : tree_(tree), words_(*words), box_(*box), site_of_(tree.size(), kNotLookedAt) {}
  // The number of reader::Call::site; 0 if there is no such line.
  std::uint64_t Of(ValueId frames);

 private:
  static constexpr std::uint32_t kNotLookedAt = UINT32_MAX;

  std::uint32_t LookAt(ValueId frame);

  const Tree& tree_;
  Words& words_;
  reader::BoxImage& box_;
  std::vector<std::uint32_t> site_of_;  // by frame; 0: torch's own
};

}  // namespace ncclwatch::analyzer::import
