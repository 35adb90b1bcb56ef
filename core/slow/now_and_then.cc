#include "core/slow/now_and_then.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/slow/points.h"
#include "core/slow/robust.h"

namespace ncclwatch::diagnosis {
namespace {

constexpr std::size_t kFewestEvents = 5;
constexpr double kEventShare = 3;       // a single late step is later than that many times `least` of a usual step
constexpr double kEventNoise = 2;       // ... and than the latest rank is in a quarter of the steps
constexpr double kEventAlike = 0.5;     // ... and than that share of the fifth latest step's lateness
constexpr double kEventExplains = 0.5;  // ... and than that share of what the step takes longer than usual
constexpr double kAsLate = 0.8;         // of the latest rank's lateness: who was first cannot be told
constexpr double kOwnEvents = 0.8;      // of all late steps, that are the rank's
constexpr double kSeenOfLong = 0.5;     // of the long steps that are to be seen, in which the rank is seen to be late

class NowAndThenSearch {
 public:
  NowAndThenSearch(const Points& points, double least)
      : points_(points), least_(least), usual_ns_(std::max(1.0, Median(points.step_ns))), event_(EventShares()) {}

  std::optional<Straggler> Find() const {
    std::vector<std::size_t> events(points_.late.size());
    std::vector<double> lost_ns(points_.late.size());
    std::size_t all = 0;
    double time_ns = 0;
    for (std::size_t step = 0; step < points_.size(); ++step) {
      time_ns += points_.step_ns[step];
      const std::size_t worst = LatestIn(step);
      if (LateIn(worst, step) < event_[step] || !IsAlone(worst, step)) continue;
      ++all;
      ++events[worst];
      lost_ns[worst] += LateIn(worst, step) * usual_ns_;
    }
    const auto most = static_cast<std::size_t>(std::max_element(events.begin(), events.end()) - events.begin());
    if (events[most] < kFewestEvents || static_cast<double>(events[most]) < kOwnEvents * static_cast<double>(all))
      return std::nullopt;
    if (lost_ns[most] / points_.seen < least_ * time_ns) return std::nullopt;
    Straggler found;
    found.rows = {most};
    found.now_and_then = true;
    found.certainty = static_cast<double>(events[most] - 1) * std::log10(static_cast<double>(points_.late.size()));
    found.late_steps = events[most];
    found.onset = FirstLateStep(most);
    Describe(&found);
    return found;
  }

 private:
  // In usual steps. As a share of its own step a late one is hardly more than what a scheduler does to short ones.
  double LateIn(std::size_t row, std::size_t step) const {
    return points_.late[row][step] * points_.step_ns[step] / usual_ns_;
  }

  // By step: late enough to be no chance, since of many ranks one is the last in every step; and to be why the step is
  // longer than usual, since whoever waits for the late rank in one communicator comes a little late in another.
  std::vector<double> EventShares() const {
    std::vector<double> worst{0}, shares;
    for (std::size_t step = 0; step < points_.size(); ++step)
      if (const double late = LateIn(LatestIn(step), step); late > 0) worst.push_back(late);
    std::sort(worst.begin(), worst.end());
    const double quarter = worst[worst.size() / 4];
    const double fifth = worst.size() < kFewestEvents ? 0 : worst[worst.size() - kFewestEvents];
    const double least = std::max({kEventShare * least_, kEventNoise * quarter, kEventAlike * fifth});
    for (const double ns : points_.step_ns) shares.push_back(std::max(least, kEventExplains * (ns / usual_ns_ - 1)));
    return shares;
  }

  // A group of which one comes late to its own collectives comes late as one to those of others.
  bool IsAlone(std::size_t worst, std::size_t step) const {
    for (std::size_t row = 0; row < points_.late.size(); ++row)
      if (row != worst && points_.late[row][step] >= kAsLate * points_.late[worst][step]) return false;
    return true;
  }

  std::size_t LatestIn(std::size_t step) const {
    std::size_t worst = 0;
    for (std::size_t row = 1; row < points_.late.size(); ++row)
      if (points_.late[row][step] > points_.late[worst][step]) worst = row;
    return worst;
  }

  // Where kernels are timed in some steps only, the first late one may be among the others: it is as long as those that
  // are known, and what makes steps so long is that rank, as far as is seen.
  std::size_t FirstLateStep(std::size_t row) const {
    std::vector<std::size_t> known;
    std::vector<double> durations;
    for (std::size_t step = 0; step < points_.size(); ++step)
      if (LateIn(row, step) >= event_[step]) known.push_back(step), durations.push_back(points_.step_ns[step]);
    const double as_long = usual_ns_ + (Median(std::move(durations)) - usual_ns_) / 2;
    const auto is_long = [&](double ns) { return ns >= as_long; };
    const auto all = std::count_if(points_.step_ns.begin(), points_.step_ns.end(), is_long);
    if (static_cast<double>(known.size()) < kSeenOfLong * points_.seen * static_cast<double>(all)) return known.front();
    const auto first = std::find_if(points_.step_ns.begin(), points_.step_ns.end(), is_long) - points_.step_ns.begin();
    return std::min(known.front(), static_cast<std::size_t>(first));
  }

  // From the arrival of the last of the others on.
  double LostNs(std::size_t row, std::size_t step) const {
    double others = 0;
    for (std::size_t one = 0; one < points_.late.size(); ++one)
      if (one != row) others = std::max(others, LateIn(one, step));
    return std::max(0.0, LateIn(row, step) - others) * usual_ns_;
  }

  void Describe(Straggler* found) const {
    std::vector<double> lost_ns;
    double time_ns = 0, all_ns = 0;
    for (std::size_t step = 0; step < points_.size(); ++step) {
      lost_ns.push_back(LostNs(found->rows.front(), step));
      time_ns += points_.step_ns[step];
      all_ns += lost_ns.back();
    }
    found->by_kernels = points_.by_kernels;
    found->step_ns = static_cast<std::int64_t>(usual_ns_);
    found->lost_ns = static_cast<std::int64_t>(Median(std::move(lost_ns)));
    found->late_ns = static_cast<std::int64_t>(all_ns / static_cast<double>(found->late_steps));
    found->share = all_ns / points_.seen / std::max(1.0, time_ns);
  }

  const Points& points_;
  const double least_, usual_ns_;
  const std::vector<double> event_;  // by step, in usual steps
};

}  // namespace

std::optional<Straggler> FindNowAndThen(const Points& points, double least) {
  if (points.size() < kFewestPoints || !points.single_steps()) return std::nullopt;
  return NowAndThenSearch(points, least).Find();
}

}  // namespace ncclwatch::diagnosis
