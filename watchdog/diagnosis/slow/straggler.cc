#include "watchdog/diagnosis/slow/straggler.h"

#include <algorithm>
#include <cmath>

#include "watchdog/diagnosis/slow/change_point.h"
#include "watchdog/diagnosis/slow/robust.h"

namespace ncclwatch::diagnosis {
namespace {

constexpr std::size_t kFewestSteps = 20;
constexpr double kStandardErrors = 6;      // chance makes that of a thousand ranks once in a million looks
constexpr double kLeastNoise = 0.002;      // of a step, that each measured lateness has
constexpr double kLeastLost_ns = 200'000;  // of a step: below that it is the system's scheduling
constexpr double kAlikeToWorst = 0.5;      // as late as this share of the latest: a straggler too
constexpr std::size_t kFewestEvents = 5;
constexpr double kEventShare = 3;   // a single late step is later than that many times `least`
constexpr double kOwnEvents = 0.8;  // of all late steps, that are the rank's

// Lateness as a share of the step, by row and step; and the length of each step.
struct Shares {
  std::vector<std::vector<double>> late;
  std::vector<double> step_ns;

  explicit Shares(const StepTable& table) {
    for (std::size_t step = 0; step < table.steps(); ++step) {
      std::vector<double> durations;
      for (const auto& row : table.parts)
        if (row[step].duration_ns > 0) durations.push_back(static_cast<double>(row[step].duration_ns));
      step_ns.push_back(std::max(1.0, Median(std::move(durations))));
    }
    for (const auto& row : table.parts) {
      std::vector<double>& shares = late.emplace_back();
      for (std::size_t step = 0; step < row.size(); ++step)
        shares.push_back(static_cast<double>(row[step].late_ns) / step_ns[step]);
    }
  }
};

std::vector<double> From(const std::vector<double>& shares, std::size_t from) {
  return {shares.begin() + static_cast<std::ptrdiff_t>(from), shares.end()};
}

class Search {
 public:
  Search(const StepTable& table, double least) : table_(table), least_(least), shares_(table) {}

  // Of windows that end with the last step the one that shows it best: a fault that began lately is clearest in the
  // short ones.
  std::optional<Straggler> Find() const {
    std::optional<Straggler> best;
    for (std::size_t length = table_.steps(); length >= kFewestSteps; length = Shorter(length)) {
      std::optional<Straggler> found = Chronic(table_.steps() - length);
      if (found && (!best || found->certainty > best->certainty)) best = std::move(found);
      if (length == kFewestSteps) break;
    }
    if (!best) best = NowAndThen();
    if (!best) return std::nullopt;
    Describe(&*best);
    return best->share * static_cast<double>(best->step_ns) >= kLeastLost_ns ? best : std::nullopt;
  }

 private:
  static std::size_t Shorter(std::size_t length) { return std::max(kFewestSteps, length / 2); }

  std::optional<Straggler> Chronic(std::size_t from) const {
    std::vector<double> medians, sigmas;
    for (const auto& row : shares_.late) {
      medians.push_back(Median(From(row, from)));
      sigmas.push_back(RobustSigma(From(row, from), medians.back()));
    }
    const double usual = Usual(medians);
    const double worst = *std::max_element(medians.begin(), medians.end()) - usual;
    if (worst < least_) return std::nullopt;
    // In few steps a rank may seem steadier than it is: it counts as no steadier than the others are.
    const double least_sigma = std::max(kLeastNoise, Median(sigmas));
    Straggler found;
    found.from = from;
    found.certainty = 1e9;
    for (std::size_t row = 0; row < medians.size(); ++row) {
      const double share = medians[row] - usual;
      const double steps = static_cast<double>(table_.steps() - from);
      const double errors = share / (kErrorOfMedian * std::max(least_sigma, sigmas[row]) / std::sqrt(steps));
      if (share < std::max(least_, kAlikeToWorst * worst) || errors < kStandardErrors) continue;
      found.rows.push_back(row);
      found.certainty = std::min(found.certainty, errors);
    }
    const std::vector<std::size_t> late = found.rows;
    std::erase_if(found.rows, [&](std::size_t row) { return !IsLateAmongItsLike(row, late, from); });
    // Of two halves neither is the exception.
    const bool too_many = medians.size() > 2 && 2 * found.rows.size() >= medians.size();
    if (found.rows.empty() || too_many) return std::nullopt;
    return found;
  }

  // All ranks of a stage of a pipeline come late to what the whole job calls: that is the pipeline. And whoever has to
  // wait for a straggler inside a stage is as late as it is, elsewhere. So in a communicator all of whose members are
  // late, the straggler is late too; unless those are the ranks of one host, and the host is late.
  bool IsLateAmongItsLike(std::size_t row, const std::vector<std::size_t>& late, std::size_t from) const {
    const auto is_late = [&](std::size_t other) { return std::find(late.begin(), late.end(), other) != late.end(); };
    for (const StepPeers& peers : table_.peers) {
      const auto own = std::lower_bound(peers.rows.begin(), peers.rows.end(), row);
      if (own == peers.rows.end() || *own != row || peers.rows.size() < 2) continue;
      if (!std::all_of(peers.rows.begin(), peers.rows.end(), is_late) || IsALateHost(peers, is_late)) continue;
      const auto& late_ns = peers.late_ns[static_cast<std::size_t>(own - peers.rows.begin())];
      std::vector<double> shares;
      for (std::size_t step = from; step < late_ns.size(); ++step)
        shares.push_back(static_cast<double>(late_ns[step]) / shares_.step_ns[step]);
      if (Median(std::move(shares)) < least_ / 2) return false;
    }
    return true;
  }

  template <class IsLate>
  bool IsALateHost(const StepPeers& peers, IsLate is_late) const {
    const int host = table_.hosts[peers.rows.front()];
    for (const std::size_t row : peers.rows)
      if (table_.hosts[row] != host) return false;
    for (std::size_t row = 0; row < table_.hosts.size(); ++row)
      if (table_.hosts[row] == host && !is_late(row)) return false;
    return true;
  }

  // Of two ranks the one that is less late.
  static double Usual(std::vector<double> medians) {
    const auto middle = medians.begin() + static_cast<std::ptrdiff_t>((medians.size() - 1) / 2);
    std::nth_element(medians.begin(), middle, medians.end());
    return *middle;
  }

  // One rank is late in a few steps by much, and hardly anybody else ever is.
  std::optional<Straggler> NowAndThen() const {
    if (table_.steps() < kFewestSteps) return std::nullopt;
    std::vector<std::size_t> events(shares_.late.size());
    std::vector<double> lost(shares_.late.size());
    std::size_t all = 0;
    for (std::size_t step = 0; step < table_.steps(); ++step) {
      std::size_t worst = 0;
      for (std::size_t row = 1; row < shares_.late.size(); ++row)
        if (shares_.late[row][step] > shares_.late[worst][step]) worst = row;
      if (shares_.late[worst][step] < kEventShare * least_) continue;
      ++all;
      ++events[worst];
      lost[worst] += shares_.late[worst][step] * shares_.step_ns[step];
    }
    const auto most = static_cast<std::size_t>(std::max_element(events.begin(), events.end()) - events.begin());
    double time = 0;
    for (const double step_ns : shares_.step_ns) time += step_ns;
    if (events[most] < kFewestEvents || static_cast<double>(events[most]) < kOwnEvents * static_cast<double>(all))
      return std::nullopt;
    if (lost[most] < least_ * time) return std::nullopt;
    Straggler found;
    found.rows = {most};
    found.now_and_then = true;
    found.certainty = static_cast<double>(events[most] - 1) * std::log10(static_cast<double>(shares_.late.size()));
    found.late_steps = events[most];
    return found;
  }

  // From the arrival of the last of the others on.
  double LostIn(const Straggler& found, std::size_t step) const {
    double late = 0, others = 0;
    for (std::size_t row = 0; row < shares_.late.size(); ++row) {
      const bool is = std::find(found.rows.begin(), found.rows.end(), row) != found.rows.end();
      double& most = is ? late : others;
      most = std::max(most, shares_.late[row][step]);
    }
    return std::max(0.0, late - others) * shares_.step_ns[step];
  }

  void Describe(Straggler* found) const {
    const std::vector<double>& late = shares_.late[found->rows.front()];
    std::vector<double> durations, lost;
    double time = 0, all_lost = 0;
    for (std::size_t step = found->from; step < table_.steps(); ++step) {
      durations.push_back(shares_.step_ns[step]);
      lost.push_back(LostIn(*found, step));
      time += durations.back();
      all_lost += lost.back();
      if (!found->now_and_then && lost.back() > 0) ++found->late_steps;
    }
    found->step_ns = static_cast<std::int64_t>(Median(durations));
    found->lost_ns = static_cast<std::int64_t>(Median(lost));
    found->late_ns = found->now_and_then ? static_cast<std::int64_t>(all_lost / static_cast<double>(found->late_steps))
                                         : found->lost_ns;
    found->share = all_lost / std::max(1.0, time);
    if (found->now_and_then) {
      const auto first =
          std::find_if(late.begin(), late.end(), [&](double one) { return one >= kEventShare * least_; });
      found->onset = static_cast<std::size_t>(first - late.begin());
      return;
    }
    const std::size_t rose = RoseAt(late);
    const double before = Median(std::vector<double>(late.begin(), late.begin() + static_cast<std::ptrdiff_t>(rose)));
    const double after = Median(From(late, rose));
    found->since_before = rose == 0 || before > after / 2;
    found->onset = found->since_before ? 0 : rose;
  }

  const StepTable& table_;
  const double least_;
  const Shares shares_;
};

}  // namespace

std::optional<Straggler> FindStraggler(const StepTable& table, double least) {
  if (table.ranks.size() < 2 || table.steps() < kFewestSteps) return std::nullopt;
  return Search(table, least).Find();
}

}  // namespace ncclwatch::diagnosis
