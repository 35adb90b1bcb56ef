#include "shim/profiler/cost.h"

#include <algorithm>
#include <cmath>

#include "ncclwatch/format/fingerprint.h"

namespace ncclwatch::shim::profiler {
namespace {

constexpr double kSure = 4;  // standard errors

}  // namespace

void CostEstimate::Add(double with, double without) {
  if (verdict_ != Verdict::kOpen || with <= 0 || without <= 0) return;
  logs_[count_++] = std::log(with / without);
  if (count_ == next_look_) Look();
}

// Few looks, so that chance gets few tries. The outermost twelfth of each side, after a pause for instance, counts as
// the value next to it.
void CostEstimate::Look() {
  double sorted[std::tuple_size_v<decltype(logs_)>];
  std::copy_n(logs_.begin(), count_, sorted);
  std::sort(sorted, sorted + count_);
  const std::size_t outer = count_ / kFirstLook;
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < count_; ++i) {
    const double one = sorted[std::clamp(i, outer, count_ - 1 - outer)];
    sum += one;
    squares += one * one;
  }
  const auto count = static_cast<double>(count_), inner = static_cast<double>(count_ - 2 * outer);
  const double mean = sum / count;
  const double deviation = std::sqrt(std::max(0.0, squares / count - mean * mean)) * count / inner;
  const double reach = kSure * deviation / std::sqrt(count), least = std::log(1 + kMostCost);
  cost_ = std::exp(mean) - 1;
  next_look_ *= 2;
  if (mean - reach > least)
    verdict_ = Verdict::kCostly;
  else if (count_ == logs_.size() || mean + reach < least)
    verdict_ = Verdict::kCheap;
}

bool HasEvents(std::uint64_t communicator, std::uint64_t window) {
  constexpr std::uint64_t kSalt = 0x77696e646f77;
  const bool outer = window % 4 == 0 || window % 4 == 3;
  return outer == (format::Mix(kSalt, format::Mix(communicator, window / 4)) >> 63 == 0);
}

bool CostTrial::Enter(std::uint64_t communicator, std::uint64_t position, std::int64_t now_ns) {
  const std::uint64_t window = position / kWindowCalls;
  if (window == window_ && communicator == communicator_) return has_events_;
  // Windows of which not every one was seen tell nothing.
  if (communicator != communicator_ || window != window_ + 1)
    began_ns_ = {};
  else if (window % kGroup == 0)
    EndGroup(communicator, window - kGroup, now_ns);
  if (window % kGroup == 0) began_ns_ = {};
  communicator_ = communicator;
  window_ = window;
  began_ns_[window % kGroup] = now_ns;
  // The first group of a communicator tells nothing of the cost: it connects the ranks.
  return has_events_ = window < kGroup || HasEvents(communicator, window);
}

void CostTrial::EndGroup(std::uint64_t communicator, std::uint64_t window, std::int64_t now_ns) {
  if (window == 0 || std::count(began_ns_.begin(), began_ns_.end(), 0) > 0) return;
  double with = 0, without = 0;
  for (std::size_t i = 0; i < kGroup; ++i) {
    const std::int64_t end_ns = i + 1 < kGroup ? began_ns_[i + 1] : now_ns;
    (HasEvents(communicator, window + i) ? with : without) += static_cast<double>(end_ns - began_ns_[i]);
  }
  estimate_.Add(with, without);
}

}  // namespace ncclwatch::shim::profiler
