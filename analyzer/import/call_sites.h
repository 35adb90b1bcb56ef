// Where calls were made: of the stacks in a dump the innermost line that is not torch's own, named in the box.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "analyzer/import/words.h"
#include "watchdog/reader/box.h"

namespace ncclwatch::analyzer::import {

class CallSites {
 public:
  CallSites(const Tree& tree, Words* words, reader::BoxImage* box) : tree_(tree), words_(*words), box_(*box) {}
  // The number of reader::Call::site; 0 if there is no such line.
  std::uint64_t Of(ValueId frames);

 private:
  std::uint64_t OfFrame(ValueId frame);

  const Tree& tree_;
  Words& words_;
  reader::BoxImage& box_;
  std::unordered_map<ValueId, std::uint64_t> site_of_;  // by frame; 0: torch's own
};

}  // namespace ncclwatch::analyzer::import
