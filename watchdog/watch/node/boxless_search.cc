#include "watchdog/watch/node/boxless_search.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <utility>

#include "watchdog/act/thread.h"

namespace ncclwatch::watch {
namespace {

constexpr int kPatience_ms = 150;  // with a tick below the 400 ms after which a heartbeat counts as missing

bool EverybodyWasSeen(const format::Identity& own, const std::vector<std::int32_t>& ranks_seen) {
  for (std::int32_t rank = 0; rank < own.world_size; ++rank)
    if (std::find(ranks_seen.begin(), ranks_seen.end(), rank) == ranks_seen.end()) return false;
  return true;
}

}  // namespace

struct BoxlessSearch::Search {
  format::Identity own;
  std::vector<std::int32_t> ranks_seen;
  std::vector<evidence::BoxlessRank> found;
  std::atomic<bool> done{false};  // released when `found` is whole
};

std::vector<evidence::BoxlessRank> BoxlessSearch::Look(const format::Identity& own,
                                                       const std::vector<std::int32_t>& ranks_seen) {
  if (EverybodyWasSeen(own, ranks_seen)) return {};
  if (!running_) {
    auto search = std::make_shared<Search>();
    search->own = own;
    search->ranks_seen = ranks_seen;
    const bool started = act::StartThread("ncclwatch look", [search, find = find_] {
      try {
        search->found = find(search->own, search->ranks_seen);
      } catch (const std::exception&) {
        search->found.clear();
      }
      search->done.store(true, std::memory_order_release);
    });
    if (!started) return {};
    running_ = std::move(search);
    for (int i = 0; i < kPatience_ms && !running_->done.load(std::memory_order_acquire); ++i) usleep(1000);
  }
  if (!running_->done.load(std::memory_order_acquire)) return {};
  std::vector<evidence::BoxlessRank> found = std::move(running_->found);
  running_.reset();
  // Some may have been born while a search was stuck.
  std::erase_if(found, [&](const evidence::BoxlessRank& boxless) {
    return std::find(ranks_seen.begin(), ranks_seen.end(), boxless.rank) != ranks_seen.end();
  });
  return found;
}

}  // namespace ncclwatch::watch
