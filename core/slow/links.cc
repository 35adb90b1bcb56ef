#include "core/slow/links.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "core/slow/change_point.h"
#include "core/slow/points.h"
#include "core/slow/robust.h"

namespace ncclwatch::diagnosis {
namespace {

constexpr std::size_t kFewestTimed = 20, kFewestOfALevel = 10;
constexpr double kLeastError = 0.01;              // of the time, that each level has
constexpr std::uint64_t kLeastBytes = 8 << 10;    // of a transfer: how long less takes says nothing about links
constexpr double kLeastRise_ns = 50'000;          // of a call: less is how kernels are launched
constexpr std::size_t kFewestStepsOfALevel = 10;  // that it lasts: it need not stay for less
constexpr std::size_t kFewestAlike = 4;           // transfers that tell what is usual
constexpr double kMuchLess = 4;                   // times
constexpr std::size_t kOneLinkOnset_steps = 10;   // and a tenth of all: as far apart a fault seems to begin

// Of the middle half: finer than a median where durations are told in coarse units.
double MiddleMean(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const auto quarter = static_cast<std::ptrdiff_t>(values.size() / 4);
  const auto begin = values.begin() + quarter, end = values.end() - quarter;
  return std::accumulate(begin, end, 0.0) / static_cast<double>(end - begin);
}

double LengthOfPart(const StepTable& table, std::size_t begin, std::size_t end) {
  std::vector<double> steps;
  for (std::size_t step = begin; step < end; ++step) {
    std::vector<double> ranks;
    for (const auto& row : table.parts)
      if (row[step].duration_ns > 0) ranks.push_back(static_cast<double>(row[step].duration_ns));
    if (!ranks.empty()) steps.push_back(Median(std::move(ranks)));
  }
  return MiddleMean(std::move(steps));
}

// What became of one series of transfers.
struct Level {
  double before_ns = 0, after_ns = 0, errors = 0;
  std::size_t onset = 0;  // step
  bool rose = false;
};

using Times = std::vector<StepTransfers::Timed>;

std::vector<double> Values(const Times& times, std::size_t begin, std::size_t end) {
  std::vector<double> values;
  for (std::size_t i = begin; i < end; ++i) values.push_back(static_cast<double>(times[i].ns));
  return values;
}

double ErrorOf(const std::vector<double>& values, double level) {
  return kErrorOfMedian * RobustSigma(values, level) / std::sqrt(static_cast<double>(values.size()));
}

// std::hypot needs a newer C library.
double Together(double a, double b) { return std::sqrt(a * a + b * b); }

Level TimesLevel(const Times& times, double least_loss) {
  const std::vector<double> all = Values(times, 0, times.size());
  const double middle = std::max(1.0, Median(all));
  std::vector<double> relative;
  for (const double value : all) relative.push_back(value / middle - 1);
  const std::size_t at = RoseAt(relative);
  Level level;
  level.before_ns = level.after_ns = middle;
  if (at < kFewestOfALevel || times.size() - at < kFewestOfALevel) return level;
  if (times.back().step - times[at].step < kFewestStepsOfALevel) return level;
  const std::vector<double> before = Values(times, 0, at), after = Values(times, at, times.size());
  const double then = Median(before), now = Median(after);
  const double error = Together(ErrorOf(before, then), ErrorOf(after, now));
  level.errors = (now - then) / std::max(error, kLeastError * then);
  level.rose = 1 - then / now > least_loss && level.errors >= kStandardErrors && now - then >= kLeastRise_ns;
  if (!level.rose) return level;
  level.before_ns = then;
  level.after_ns = now;
  level.onset = times[at].step;
  return level;
}

class LinkSearch {
 public:
  LinkSearch(const StepTable& table, const Topology& topology, double least_loss, double least_share)
      : table_(table), topology_(topology), least_loss_(least_loss), least_share_(least_share) {}

  std::optional<SlowLinks> Find() {
    for (std::size_t i = 0; i < table_.transfers.size(); ++i)
      if (table_.transfers[i].times.size() >= kFewestTimed && table_.transfers[i].bytes >= kLeastBytes)
        levels_.emplace(i, TimesLevel(table_.transfers[i].times, least_loss_));
    SlowLinks found;
    if (!CollectRisen()) {
      if (!CollectUnlikeOthers()) return std::nullopt;
      found.since_before = true;
    }
    if (!SetLoss(&found)) return std::nullopt;
    SetShared(&found);
    return found;
  }

 private:
  // The same between as many ranks, and as many hosts.
  using Likeness = std::tuple<functions::Function, std::uint64_t, std::size_t, std::size_t>;
  Likeness LikenessOf(std::size_t index) const {
    const StepTransfers& one = table_.transfers[index];
    return {one.function, one.bytes, one.rows.size(), HostsOf(one).size()};
  }

  // Those that rose at about the same time as the one that lost most. What rose a little at another time, or by much
  // less than one like it, is no part of it, and what it passes is cleared: whoever waits for the slow one polls, and
  // takes processors away from the others.
  bool CollectRisen() {
    double most = 0;
    const Level* worst = nullptr;
    for (const auto& [index, level] : levels_) {
      const double lost = (level.after_ns - level.before_ns) * static_cast<double>(table_.transfers[index].calls);
      if (!level.rose || lost <= most) continue;
      most = lost;
      worst = &level;
    }
    if (!worst) return false;
    const std::size_t apart = kOneLinkOnset_steps + table_.steps() / 10;
    const auto is_of_it = [&](const Level& level) {
      const auto [first, second] = std::minmax(level.onset, worst->onset);
      return level.rose && second - first <= apart;
    };
    std::map<Likeness, double> most_of;  // of those that are of it: the highest rise
    for (const auto& [index, level] : levels_)
      if (is_of_it(level)) most_of[LikenessOf(index)] = std::max(most_of[LikenessOf(index)], Rise(level));
    for (const auto& [index, level] : levels_) {
      if (is_of_it(level) && Rise(level) >= most_of[LikenessOf(index)] / kMuchLess)
        slower_.push_back(index);
      else if (!level.rose || is_of_it(level) || Rise(level) < Rise(*worst) / kMuchLess)
        as_before_.push_back(index);
    }
    return true;
  }

  static double Rise(const Level& level) { return level.after_ns / level.before_ns - 1; }

  // What takes longer than those like it from the beginning on.
  bool CollectUnlikeOthers() {
    std::map<Likeness, std::vector<std::size_t>> alike;
    for (const auto& [index, level] : levels_) alike[LikenessOf(index)].push_back(index);
    for (const auto& [key, all] : alike) {
      std::vector<double> middles;
      for (const std::size_t index : all) middles.push_back(levels_.at(index).after_ns);
      const double usual = Median(middles), scatter = RobustSigma(std::move(middles), usual);
      std::vector<std::size_t> unlike;
      for (const std::size_t index : all) {
        Level& level = levels_.at(index);
        const std::vector<double> values =
            Values(table_.transfers[index].times, 0, table_.transfers[index].times.size());
        const double error = std::max({ErrorOf(values, level.after_ns), kLeastError * usual, scatter});
        if (1 - usual / level.after_ns <= least_loss_ || level.after_ns - usual < kStandardErrors * error) continue;
        level.errors = (level.after_ns - usual) / error;
        level.before_ns = usual;
        unlike.push_back(index);
      }
      const bool few = all.size() >= kFewestAlike && 2 * unlike.size() < all.size();
      for (const std::size_t index : all) {
        const bool is = few && std::find(unlike.begin(), unlike.end(), index) != unlike.end();
        (is ? slower_ : as_before_).push_back(index);
      }
    }
    return !slower_.empty();
  }

  // By what a rank's own transfers take longer in a step, and by what steps do.
  bool SetLoss(SlowLinks* found) const {
    std::map<std::size_t, double> lost;
    std::vector<std::size_t> onsets;
    double most = -1;
    for (const std::size_t index : slower_) {
      const StepTransfers& one = table_.transfers[index];
      const Level& level = levels_.at(index);
      const double in_step =
          (level.after_ns - level.before_ns) * static_cast<double>(one.calls) / static_cast<double>(table_.steps());
      for (const std::size_t row : one.rows) lost[row] += in_step;
      onsets.push_back(level.onset);
      if (in_step <= most) continue;
      most = in_step;
      found->example = index;
      found->before_ns = level.before_ns;
      found->after_ns = level.after_ns;
      found->certainty = level.errors;
    }
    found->slower = slower_.size();
    found->as_before = as_before_.size();
    found->onset = found->since_before ? 0 : Median(std::move(onsets));
    double lost_ns = 0;
    for (const auto& [row, in_step] : lost) lost_ns = std::max(lost_ns, in_step);
    const double now = LengthOfPart(table_, found->onset, table_.steps());
    if (!found->since_before) lost_ns = std::min(lost_ns, now - LengthOfPart(table_, 0, found->onset));
    found->share = now > 0 ? lost_ns / now : 0;
    return lost_ns >= kLeastLost_ns && found->share >= least_share_;
  }

  std::set<int> HostsOf(const StepTransfers& one) const {
    std::set<int> hosts;
    for (const std::size_t row : one.rows) hosts.insert(table_.hosts[row]);
    return hosts;
  }

  void SetShared(SlowLinks* found) const {
    const std::optional<SlowParts> explained = ExplainSlow(table_, topology_, slower_, as_before_);
    if (!explained) return SetHosts(found);
    found->parts = explained->parts;
    found->instead = explained->instead;
    std::set<std::size_t> rows;
    std::set<int> hosts;
    for (const Component& part : found->parts) {
      if (part.kind == Component::Kind::kNetwork) continue;
      const std::vector<std::size_t> own = RowsOf(part);
      rows.insert(own.begin(), own.end());
      hosts.insert(part.hosts.begin(), part.hosts.end());
    }
    found->rows.assign(rows.begin(), rows.end());
    AddHostNames(hosts, found);
    if (found->parts.size() > 1) return;
    const Component& only = found->parts.front();
    found->pair = only.rows;
    found->switch_name = only.name;
    if (only.rail >= 0) found->rail = only.rail;
  }

  std::vector<std::size_t> RowsOf(const Component& part) const {
    if (!part.rows.empty()) return part.rows;
    std::vector<std::size_t> rows;
    for (std::size_t row = 0; row < table_.ranks.size(); ++row) {
      const bool there =
          part.hosts.empty() || std::binary_search(part.hosts.begin(), part.hosts.end(), table_.hosts[row]);
      if (there && (part.rail < 0 || part.rail == table_.rails[row])) rows.push_back(row);
    }
    return rows;
  }

  // The hosts of losers that nobody clears; where others use all of them too, the hosts of losers.
  void SetHosts(SlowLinks* found) const {
    std::set<int> hosts, cleared, suspects;
    const auto add = [&](const std::vector<std::size_t>& transfers, std::set<int>* to) {
      for (const std::size_t index : transfers) to->merge(HostsOf(table_.transfers[index]));
    };
    add(slower_, &hosts);
    add(as_before_, &cleared);
    std::set_difference(hosts.begin(), hosts.end(), cleared.begin(), cleared.end(),
                        std::inserter(suspects, suspects.end()));
    if (suspects.empty()) suspects = std::move(hosts);
    if (suspects.size() < table_.host_names.size()) return NameHosts(suspects, found);
    std::set<std::size_t> rows;
    for (const std::size_t index : slower_)
      rows.insert(table_.transfers[index].rows.begin(), table_.transfers[index].rows.end());
    if (rows.size() < table_.ranks.size()) found->rows.assign(rows.begin(), rows.end());
  }

  void NameHosts(const std::set<int>& hosts, SlowLinks* found) const {
    AddHostNames(hosts, found);
    for (std::size_t row = 0; row < table_.hosts.size(); ++row)
      if (hosts.contains(table_.hosts[row])) found->rows.push_back(row);
  }
  void AddHostNames(const std::set<int>& hosts, SlowLinks* found) const {
    for (const int host : hosts) found->hosts.push_back(table_.host_names[static_cast<std::size_t>(host)]);
    std::sort(found->hosts.begin(), found->hosts.end());
  }

  const StepTable& table_;
  const Topology& topology_;
  const double least_loss_, least_share_;
  std::map<std::size_t, Level> levels_;  // by transfers of the table
  std::vector<std::size_t> slower_, as_before_;
};

}  // namespace

std::optional<SlowLinks> FindSlowLinks(const StepTable& table, const Topology& topology, double least_loss,
                                       double least_share) {
  if (table.ranks.size() < 2 || table.steps() < kFewestTimed) return std::nullopt;
  return LinkSearch(table, topology, least_loss, least_share).Find();
}

}  // namespace ncclwatch::diagnosis
