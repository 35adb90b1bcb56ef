#include "core/slow/straggler.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "core/slow/change_point.h"
#include "core/slow/now_and_then.h"
#include "core/slow/points.h"
#include "core/slow/robust.h"

namespace ncclwatch::diagnosis {
namespace {

constexpr double kLeastNoise = 0.002;    // of a step, that each measured lateness has
constexpr double kAlikeToWorst = 0.5;    // as late as this share of the latest: a straggler too
constexpr double kLeastOfScatter = 0.5;  // of its lateness: ranks that share processors are late by varying amounts
constexpr std::size_t kFewPoints = 60;   // in so few a rank may be late by chance of what else the machine did
constexpr std::size_t kMostFound = 4;
// Ranks that become late within so many steps of one another have one cause.
constexpr double kOneOnset_steps = 10, kOneOnsetShare = 0.05;

std::vector<double> From(const std::vector<double>& shares, std::size_t from) {
  return {shares.begin() + static_cast<std::ptrdiff_t>(from), shares.end()};
}

class StragglerSearch {
 public:
  StragglerSearch(const StepTable& table, const Points& points, double least)
      : table_(table), points_(points), least_(least), left_out_(table.parts.size(), false) {}

  // The next ones, all of whom began at about the same step; then as if they were not there.
  std::optional<Straggler> Next() {
    std::optional<Straggler> found = Best();
    if (!found) return std::nullopt;
    // Those who became late after it may hide it: it is told as if they were not there either.
    const std::vector<std::size_t> later = KeepFirstOnes(&*found);
    const std::vector<bool> left_out = left_out_;
    for (const std::size_t row : later) left_out_[row] = true;
    Describe(&*found);
    left_out_ = left_out;
    for (const std::size_t row : found->rows) left_out_[row] = true;
    return found;
  }

 private:
  static std::size_t Shorter(std::size_t length) { return std::max(kFewestPoints, length / 2); }

  // Of windows that end with the last point the one that shows it best: a fault that began lately is clearest in the
  // short ones.
  std::optional<Straggler> Best() const {
    std::optional<Straggler> best;
    for (std::size_t length = points_.size(); length >= kFewestPoints; length = Shorter(length)) {
      std::optional<Straggler> found = Chronic(points_.size() - length);
      if (found && (!best || found->certainty > best->certainty)) best = std::move(found);
      if (length == kFewestPoints) break;
    }
    return best;
  }

  // Ranks that have been late for as long. Returns the others.
  std::vector<std::size_t> KeepFirstOnes(Straggler* found) const {
    std::vector<std::size_t> onsets;
    for (const std::size_t row : found->rows) onsets.push_back(OnsetOf(row).value_or(0));
    const std::size_t first = *std::min_element(onsets.begin(), onsets.end());
    const double apart = kOneOnset_steps + kOneOnsetShare * static_cast<double>(table_.steps());
    std::vector<std::size_t> rows, later;
    for (std::size_t i = 0; i < onsets.size(); ++i) {
      const auto after = static_cast<double>(points_.first[onsets[i]] - points_.first[first]);
      (after <= apart ? rows : later).push_back(found->rows[i]);
    }
    found->rows = std::move(rows);
    return later;
  }

  // Since which point it has been late; none: since before the first one.
  std::optional<std::size_t> OnsetOf(std::size_t row) const {
    const std::vector<double>& late = points_.late[row];
    const std::size_t rose = RoseAt(late);
    const double before = Median(std::vector<double>(late.begin(), late.begin() + static_cast<std::ptrdiff_t>(rose)));
    return rose == 0 || before > Median(From(late, rose)) / 2 ? std::nullopt : std::optional(rose);
  }

  std::optional<Straggler> Chronic(std::size_t from) const {
    std::vector<double> medians, sigmas;
    for (const auto& row : points_.late) {
      medians.push_back(Median(From(row, from)));
      sigmas.push_back(RobustSigma(From(row, from), medians.back()));
    }
    const double usual = Usual(medians);
    double worst = 0;
    for (std::size_t row = 0; row < medians.size(); ++row)
      if (!left_out_[row]) worst = std::max(worst, medians[row] - usual);
    const double least = points_.size() - from < kFewPoints ? 2 * least_ : least_;
    if (worst < least) return std::nullopt;
    // In few steps a rank may seem steadier than it is: it counts as no steadier than the others are.
    const double least_sigma = std::max(kLeastNoise, Median(sigmas));
    Straggler found;
    found.from = from;
    found.certainty = 1e9;
    for (std::size_t row = 0; row < medians.size(); ++row) {
      const double share = medians[row] - usual;
      const auto count = static_cast<double>(points_.size() - from);
      const double errors = share / (kErrorOfMedian * std::max(least_sigma, sigmas[row]) / std::sqrt(count));
      if (left_out_[row] || share < std::max(least, kAlikeToWorst * worst) || errors < kStandardErrors) continue;
      if (share < kLeastOfScatter * sigmas[row]) continue;
      found.rows.push_back(row);
      found.certainty = std::min(found.certainty, errors);
    }
    std::vector<bool> late = left_out_;
    for (std::size_t row = 0; row < medians.size(); ++row) late[row] = late[row] || medians[row] - usual >= least_ / 2;
    std::erase_if(found.rows, [&](std::size_t row) { return !IsLateAmongItsLike(row, late, from); });
    // Of two halves neither is the exception.
    const bool too_many = medians.size() > 2 && 2 * found.rows.size() >= medians.size();
    if (found.rows.empty() || too_many) return std::nullopt;
    return found;
  }

  // All ranks of a stage of a pipeline come late to what the whole job calls: that is the pipeline. And whoever has to
  // wait for a straggler inside a stage is as late as it is, elsewhere. So in a communicator all of whose members are
  // late, the straggler is late too; unless those are the ranks of one host, and none of them is later than the others.
  bool IsLateAmongItsLike(std::size_t row, const std::vector<bool>& late, std::size_t from) const {
    for (const StepPeers& peers : table_.peers) {
      const auto own = std::lower_bound(peers.rows.begin(), peers.rows.end(), row);
      if (own == peers.rows.end() || *own != row || peers.rows.size() < 2) continue;
      const bool all = std::all_of(peers.rows.begin(), peers.rows.end(), [&](std::size_t one) { return late[one]; });
      if (!all || LateAmong(peers, static_cast<std::size_t>(own - peers.rows.begin()), from) >= least_ / 2) continue;
      if (!IsALateHost(peers, late) || AnyLateAmong(peers, from)) return false;
    }
    return true;
  }

  bool AnyLateAmong(const StepPeers& peers, std::size_t from) const {
    for (std::size_t place = 0; place < peers.rows.size(); ++place)
      if (LateAmong(peers, place, from) >= least_ / 2) return true;
    return false;
  }

  double LateAmong(const StepPeers& peers, std::size_t place, std::size_t from) const {
    std::vector<double> shares;
    double sum = 0;
    for (std::size_t point = from; point < points_.size(); ++point) {
      const std::size_t end = point + 1 < points_.size() ? points_.first[point + 1] : table_.steps();
      for (std::size_t step = points_.first[point]; step < end; ++step) {
        const auto& late_ns = points_.by_kernels ? peers.kernel_late_ns[place] : peers.late_ns[place];
        shares.push_back(static_cast<double>(late_ns[step]) / points_.step_ns[point]);
        sum += shares.back();
      }
    }
    // Of kernels some calls alone are timed: most steps say nothing.
    return points_.single_steps() ? Median(std::move(shares)) : sum / static_cast<double>(shares.size());
  }

  bool IsALateHost(const StepPeers& peers, const std::vector<bool>& late) const {
    const int host = table_.hosts[peers.rows.front()];
    for (const std::size_t row : peers.rows)
      if (table_.hosts[row] != host) return false;
    for (std::size_t row = 0; row < table_.hosts.size(); ++row)
      if (table_.hosts[row] == host && !late[row]) return false;
    return true;
  }

  // Of two ranks the one that is less late.
  static double Usual(std::vector<double> medians) {
    const auto middle = medians.begin() + static_cast<std::ptrdiff_t>((medians.size() - 1) / 2);
    std::nth_element(medians.begin(), middle, medians.end());
    return *middle;
  }

  // Of the step time.
  double RiseAt(std::size_t point) const {
    const auto middle = points_.step_ns.begin() + static_cast<std::ptrdiff_t>(point);
    return 1 - Median(std::vector<double>(points_.step_ns.begin(), middle)) /
                   Median(std::vector<double>(middle, points_.step_ns.end()));
  }

  // From the arrival of the last of the others on.
  double LostIn(const Straggler& found, std::size_t point) const {
    double late = 0, others = 0;
    for (std::size_t row = 0; row < points_.late.size(); ++row) {
      if (left_out_[row]) continue;
      const bool is = std::find(found.rows.begin(), found.rows.end(), row) != found.rows.end();
      double& most = is ? late : others;
      most = std::max(most, points_.late[row][point]);
    }
    return std::max(0.0, late - others) * points_.step_ns[point];
  }

  // Points become steps.
  void Describe(Straggler* found) const {
    std::vector<double> durations, lost;
    double time = 0, all_lost = 0;
    for (std::size_t point = found->from; point < points_.size(); ++point) {
      durations.push_back(points_.step_ns[point]);
      lost.push_back(LostIn(*found, point));
      time += durations.back();
      all_lost += lost.back();
      if (points_.single_steps() && lost.back() > 0) ++found->late_steps;
    }
    found->by_kernels = points_.by_kernels;
    found->step_ns = static_cast<std::int64_t>(Median(durations));
    found->lost_ns = static_cast<std::int64_t>(Median(lost));
    found->late_ns = found->lost_ns;
    found->share = all_lost / std::max(1.0, time);
    found->from = points_.first[found->from];
    const std::optional<std::size_t> onset = OnsetOf(found->rows.front());
    found->since_before = !onset;
    // What is late in one call may be late in the next one for it: no more is lost than steps have become longer.
    if (points_.by_kernels && onset) found->share = std::min(found->share, std::max(0.0, RiseAt(*onset)));
    found->onset = onset ? points_.first[*onset] : 0;
  }

  const StepTable& table_;
  const Points& points_;
  const double least_;
  std::vector<bool> left_out_;  // rows that have been told
};

bool IsWorthTelling(const Straggler& found) {
  return found.share * static_cast<double>(found.step_ns) >= kLeastLost_ns;
}

// It began with one that is told, and beside that one nothing is lost by it in most steps: it waits for that one.
bool IsEcho(const Straggler& found, const std::vector<Straggler>& reported) {
  return found.lost_ns < kLeastLost_ns && std::any_of(reported.begin(), reported.end(), [&](const Straggler& one) {
           const auto [first, second] = std::minmax(one.onset, found.onset);
           return static_cast<double>(second - first) <= kOneOnset_steps;
         });
}

// Those who wait for a rank that is late in most steps are late elsewhere, in this step or that: only where it costs
// many times as much as what was found before, that is the noise.
void AddNowAndThen(const Points& points, double least, std::vector<Straggler>* all) {
  constexpr double kMuchMore = 4;
  std::optional<Straggler> found = FindNowAndThen(points, least);
  if (!found || !IsWorthTelling(*found)) return;
  const auto is_noise = [&](const Straggler& one) { return kMuchMore * one.share < found->share; };
  if (!std::all_of(all->begin(), all->end(), is_noise)) return;
  all->assign(1, std::move(*found));
}

void Find(const StepTable& table, const Points& points, double least, std::vector<Straggler>* all) {
  StragglerSearch search(table, points, least);
  while (all->size() < kMostFound) {
    std::optional<Straggler> found = search.Next();
    if (!found) return;
    const auto is_reported = [&](std::size_t row) {
      return std::any_of(all->begin(), all->end(), [&](const Straggler& one) {
        return std::find(one.rows.begin(), one.rows.end(), row) != one.rows.end();
      });
    };
    std::erase_if(found->rows, is_reported);
    if (!found->rows.empty() && IsWorthTelling(*found) && !IsEcho(*found, *all)) all->push_back(std::move(*found));
  }
}

}  // namespace

std::vector<Straggler> FindStragglersByOwnTime(const StepTable& table, double least) {
  std::vector<Straggler> all;
  if (table.ranks.size() < 3 || table.steps() < kFewestPoints) return all;
  const Points points = PointsOfOwnTime(table);
  if (points.size() == 0) return all;
  // Whoever shares its processor is outside of calls a little longer, for a while or for good.
  constexpr double kAboveScheduling = 3;
  Find(table, points, kAboveScheduling * least, &all);
  if (all.empty()) AddNowAndThen(points, kAboveScheduling * least, &all);
  for (Straggler& found : all) found.by_messages = true;
  return all;
}

std::vector<Straggler> FindStragglers(const StepTable& table, double least) {
  std::vector<Straggler> all;
  if (table.ranks.size() < 2 || table.steps() < kFewestPoints) return all;
  const Points calls = PointsOfCalls(table);
  Find(table, calls, least, &all);
  AddNowAndThen(calls, least, &all);
  if (all.empty() || !all.front().now_and_then) Find(table, PointsOfKernels(table), least, &all);
  if (all.empty()) AddNowAndThen(PointsOfTimedKernels(table), least, &all);
  std::stable_sort(all.begin(), all.end(), [](const Straggler& a, const Straggler& b) {
    return std::pair(a.onset, -a.share) < std::pair(b.onset, -b.share);
  });
  return all;
}

}  // namespace ncclwatch::diagnosis
