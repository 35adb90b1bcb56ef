#include "watchdog/watch/process/ending.h"

#include "watchdog/act/thread.h"

namespace ncclwatch::watch {
namespace {

constexpr int kBusy = -1;

}  // namespace

bool Ending::Due(std::int64_t now_ns) {
  if (!abort_) return true;
  if (!aborted_) {
    began_ns_ = now_ns;
    aborted_ = std::make_shared<std::atomic<int>>(kBusy);
    const bool started = act::StartThread("ncclwatch-abort", [abort = abort_, aborted = aborted_] {
      aborted->store(abort(), std::memory_order_release);
    });
    if (!started) aborted_->store(0, std::memory_order_release);
  }
  const int aborted = aborted_->load(std::memory_order_acquire);
  if (aborted == kBusy) return now_ns - began_ns_ >= kAbortAtMost_ns;
  if (aborted == 0) return true;  // nobody was woken
  if (aborted_ns_ == 0) aborted_ns_ = now_ns;
  return now_ns - aborted_ns_ >= kGrace_ns;
}

}  // namespace ncclwatch::watch
