// What NCCL's profiler interface costs the job, measured while it runs: windows of calls in which NCCL may be asked for
// events alternate with windows in which it is not, and their durations are compared. All ranks have the same windows,
// since these follow from a communicator and the positions of its calls.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace ncclwatch::shim::profiler {

inline constexpr double kMostCost = 0.005;  // of the time, before the interface is left alone

// From how long windows with events took, and windows without. Pure, of constant size.
class CostEstimate {
 public:
  enum class Verdict { kOpen, kCheap, kCostly };

  // Of a group of windows: the sums of their durations.
  void Add(double with, double without);
  Verdict verdict() const { return verdict_; }
  double cost() const { return cost_; }  // the share by which the time grows, as of the last look

 private:
  static constexpr std::size_t kFirstLook = 12, kLooks = 7;  // each at twice as many as the one before

  void Look();
  std::array<double, kFirstLook << (kLooks - 1)> logs_{};  // of the ratios
  std::size_t count_ = 0, next_look_ = kFirstLook;
  Verdict verdict_ = Verdict::kOpen;
  double cost_ = 0;
};

inline constexpr std::uint64_t kWindowCalls = 128;

// Of each four windows two: the first and the last, or the other two. So neither a drift nor what comes back in every
// second window favours one side; which side it is changes at random, but alike on all ranks.
bool HasEvents(std::uint64_t communicator, std::uint64_t window);

// The windows of one communicator, one after the other.
class CostTrial {
 public:
  // Its collective at `position` is about to be passed on. True: NCCL may be asked for events.
  bool Enter(std::uint64_t communicator, std::uint64_t position, std::int64_t now_ns);
  const CostEstimate& estimate() const { return estimate_; }

 private:
  static constexpr std::uint64_t kGroup = 4;

  void EndGroup(std::uint64_t communicator, std::uint64_t window, std::int64_t now_ns);
  CostEstimate estimate_;
  std::uint64_t communicator_ = 0, window_ = UINT64_MAX;
  std::array<std::int64_t, kGroup> began_ns_{};  // of the windows of this group, 0: not seen
  bool has_events_ = true;
};

}  // namespace ncclwatch::shim::profiler
