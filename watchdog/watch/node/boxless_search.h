// Looks for ranks without a box on a thread of its own: the environment of another process is read under a lock of its
// memory, and one that is stuck in a page fault would keep the heart of this process from beating.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "watchdog/evidence/boxless_ranks.h"

namespace ncclwatch::watch {

class BoxlessSearch {
 public:
  using Find =
      std::function<std::vector<evidence::BoxlessRank>(const format::Identity&, const std::vector<std::int32_t>&)>;
  explicit BoxlessSearch(Find find = evidence::FindBoxlessRanks) : find_(std::move(find)) {}

  // Ranks that are not among those seen. Usually there at once: a look takes milliseconds, and is waited for a little.
  // While one is stuck there is no second, and nobody waits; what it finds in the end is told by a later call.
  std::vector<evidence::BoxlessRank> Look(const format::Identity& own, const std::vector<std::int32_t>& ranks_seen);

 private:
  struct Search;
  Find find_;
  std::shared_ptr<Search> running_;
};

}  // namespace ncclwatch::watch
