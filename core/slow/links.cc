#include "core/slow/links.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "core/slow/change_point.h"
#include "core/slow/points.h"
#include "core/slow/robust.h"

namespace ncclwatch::diagnosis {
namespace {

constexpr std::size_t kFewestTimed = 20, kFewestOfALevel = 10;
constexpr double kLeastError = 0.01;             // of the time, that each level has
constexpr std::size_t kFewestAlike = 4;          // transfers that tell what is usual
constexpr std::size_t kOneLinkOnset_steps = 10;  // and a tenth of all: as far apart a fault seems to begin

double LengthOfPart(const StepTable& table, std::size_t begin, std::size_t end) {
  std::vector<double> steps;
  for (std::size_t step = begin; step < end; ++step) {
    std::vector<double> ranks;
    for (const auto& row : table.parts)
      if (row[step].duration_ns > 0) ranks.push_back(static_cast<double>(row[step].duration_ns));
    if (!ranks.empty()) steps.push_back(Median(std::move(ranks)));
  }
  return Median(std::move(steps));
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
  const std::vector<double> before = Values(times, 0, at), after = Values(times, at, times.size());
  const double then = Median(before), now = Median(after);
  const double error = Together(ErrorOf(before, then), ErrorOf(after, now));
  level.errors = (now - then) / std::max(error, kLeastError * then);
  level.rose = 1 - then / now > least_loss && level.errors >= kStandardErrors;
  if (!level.rose) return level;
  level.before_ns = then;
  level.after_ns = now;
  level.onset = times[at].step;
  return level;
}

bool IsSubset(const std::set<int>& part, const std::set<int>& whole) {
  return std::includes(whole.begin(), whole.end(), part.begin(), part.end());
}

class LinkSearch {
 public:
  LinkSearch(const StepTable& table, const Topology& topology, double least_loss, double least_share)
      : table_(table), least_loss_(least_loss), least_share_(least_share) {
    for (const Switch& one : topology) {
      std::set<int> hosts;
      for (std::size_t host = 0; host < table.host_names.size(); ++host)
        if (one.hosts.contains(table.host_names[host])) hosts.insert(static_cast<int>(host));
      if (!hosts.empty()) switches_.emplace_back(one.name, std::move(hosts));
    }
  }

  std::optional<SlowLinks> Find() {
    for (std::size_t i = 0; i < table_.transfers.size(); ++i)
      if (table_.transfers[i].times.size() >= kFewestTimed)
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
  // Those that rose at about the same time as most.
  bool CollectRisen() {
    std::vector<std::size_t> onsets;
    for (const auto& [index, level] : levels_)
      if (level.rose) onsets.push_back(level.onset);
    if (onsets.empty()) return false;
    const auto middle = static_cast<double>(Median(std::move(onsets)));
    const double apart = static_cast<double>(kOneLinkOnset_steps) + 0.1 * static_cast<double>(table_.steps());
    for (const auto& [index, level] : levels_) {
      const bool then = std::abs(static_cast<double>(level.onset) - middle) <= apart;
      (level.rose && then ? slower_ : as_before_).push_back(index);
    }
    return !slower_.empty();
  }

  // The same between as many ranks, and as many hosts, takes longer from the beginning on.
  bool CollectUnlikeOthers() {
    std::map<std::tuple<functions::Function, std::uint64_t, std::size_t, std::size_t>, std::vector<std::size_t>> alike;
    for (const auto& [index, level] : levels_) {
      const StepTransfers& one = table_.transfers[index];
      alike[{one.function, one.bytes, one.rows.size(), HostsOf(one).size()}].push_back(index);
    }
    for (const auto& [key, all] : alike) {
      std::vector<double> middles;
      for (const std::size_t index : all) middles.push_back(levels_.at(index).after_ns);
      const double usual = Median(std::move(middles));
      std::vector<std::size_t> unlike;
      for (const std::size_t index : all) {
        Level& level = levels_.at(index);
        const std::vector<double> values =
            Values(table_.transfers[index].times, 0, table_.transfers[index].times.size());
        const double error = std::max(ErrorOf(values, level.after_ns), kLeastError * usual);
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

  std::vector<std::set<int>> HostsOf(const std::vector<std::size_t>& transfers, bool between_hosts) const {
    std::vector<std::set<int>> all;
    for (const std::size_t index : transfers)
      if (std::set<int> hosts = HostsOf(table_.transfers[index]); !between_hosts || hosts.size() > 1)
        all.push_back(std::move(hosts));
    return all;
  }

  void SetShared(SlowLinks* found) const {
    std::vector<std::set<int>> losers = HostsOf(slower_, true);
    // Where a host is slow within itself, what goes beyond it is slow for that.
    const bool within = std::any_of(slower_.begin(), slower_.end(),
                                    [&](std::size_t index) { return HostsOf(table_.transfers[index]).size() == 1; });
    const std::vector<std::set<int>> others = HostsOf(as_before_, !within);
    if (within) losers = HostsOf(slower_, false);
    if (SetPair(found) || SetHost(losers, others, found) || SetRail(found) || SetSwitch(losers, others, found)) return;
    SetHosts(losers, others, found);
  }

  bool SetPair(SlowLinks* found) const {
    std::set<std::vector<std::size_t>> pairs;
    bool others = false;
    for (const std::size_t index : slower_) pairs.insert(table_.transfers[index].rows);
    for (const std::size_t index : as_before_)
      others = others || (table_.transfers[index].is_message && !pairs.contains(table_.transfers[index].rows));
    if (pairs.size() != 1 || !table_.transfers[slower_.front()].is_message || !others) return false;
    found->rows = found->pair = *pairs.begin();
    AddHostNames(HostsOf(table_.transfers[slower_.front()]), found);
    return true;
  }

  // One host that all losers have, and nobody else.
  bool SetHost(const std::vector<std::set<int>>& losers, const std::vector<std::set<int>>& others,
               SlowLinks* found) const {
    std::vector<int> candidates;
    for (int host = 0; host < static_cast<int>(table_.host_names.size()); ++host) {
      const auto has = [&](const std::set<int>& hosts) { return hosts.contains(host); };
      if (!losers.empty() && std::all_of(losers.begin(), losers.end(), has) &&
          std::none_of(others.begin(), others.end(), has))
        candidates.push_back(host);
    }
    if (candidates.size() != 1 || table_.host_names.size() < 2) return false;
    NameHosts({candidates.front()}, found);
    return true;
  }

  bool SetRail(SlowLinks* found) const {
    const auto rail_of = [&](std::size_t index) {
      std::optional<int> rail;
      for (const std::size_t row : table_.transfers[index].rows) {
        if (rail && *rail != table_.rails[row]) return -1;
        rail = table_.rails[row];
      }
      return HostsOf(table_.transfers[index]).size() > 1 ? rail.value_or(-1) : -1;
    };
    const int rail = rail_of(slower_.front());
    bool others = false;
    for (const std::size_t index : slower_)
      if (rail_of(index) != rail) return false;
    for (const std::size_t index : as_before_) {
      if (rail_of(index) == rail) return false;
      others = others || rail_of(index) >= 0;
    }
    if (rail < 0 || !others) return false;
    found->rail = rail;
    for (std::size_t row = 0; row < table_.rails.size(); ++row)
      if (table_.rails[row] == rail) found->rows.push_back(row);
    return true;
  }

  // Among the hosts behind it, or from there to elsewhere: all such transfers lose, and no others.
  bool SetSwitch(const std::vector<std::set<int>>& losers, const std::vector<std::set<int>>& others,
                 SlowLinks* found) const {
    const auto inside = [](const std::set<int>& hosts, const std::set<int>& behind) {
      return std::count_if(hosts.begin(), hosts.end(), [&](int host) { return behind.contains(host); });
    };
    for (const auto& [name, behind] : switches_) {
      if (behind.size() == table_.host_names.size()) continue;
      const auto among = [&, &its = behind](const std::set<int>& hosts) { return inside(hosts, its) >= 2; };
      const auto beyond = [&, &its = behind](const std::set<int>& hosts) {
        return inside(hosts, its) >= 1 && !IsSubset(hosts, its);
      };
      const auto explains = [&](const auto& touches) {
        return std::all_of(losers.begin(), losers.end(), touches) &&
               std::none_of(others.begin(), others.end(), touches);
      };
      if (losers.empty() || (!explains(among) && !explains(beyond))) continue;
      found->switch_name = name;
      NameHosts(behind, found);
      return true;
    }
    return false;
  }

  // The hosts of losers that nobody clears; where others use all of them too, the hosts of losers.
  void SetHosts(const std::vector<std::set<int>>& losers, const std::vector<std::set<int>>& others,
                SlowLinks* found) const {
    std::set<int> hosts, cleared, suspects;
    for (const std::set<int>& one : losers) hosts.insert(one.begin(), one.end());
    for (const std::set<int>& one : others) cleared.insert(one.begin(), one.end());
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
  const double least_loss_, least_share_;
  std::vector<std::pair<std::string, std::set<int>>> switches_;  // with hosts of the table, the smallest first
  std::map<std::size_t, Level> levels_;                          // by transfers of the table
  std::vector<std::size_t> slower_, as_before_;
};

}  // namespace

std::optional<SlowLinks> FindSlowLinks(const StepTable& table, const Topology& topology, double least_loss,
                                       double least_share) {
  if (table.ranks.size() < 2 || table.steps() < kFewestTimed) return std::nullopt;
  return LinkSearch(table, topology, least_loss, least_share).Find();
}

}  // namespace ncclwatch::diagnosis
