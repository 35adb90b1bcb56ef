#include "core/slow/numbers.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "core/slow/robust.h"

namespace ncclwatch::diagnosis {
namespace {

constexpr std::size_t kFewestBefore = 20, kMostBefore = 100;  // values that make a level
constexpr double kSpike = 20;                                 // robust standard deviations above the level
constexpr double kLeastSigma = 1e-3;  // of the level: a loss that hardly moves has no spikes for that
constexpr char kReplica[] = "replica:";
constexpr char kLossMetric[] = "loss", kGradient[] = "grad_norm";

struct Logged {
  int rank = -1;
  double value = 0;
  std::int64_t at_ns = 0;
};
using MetricBySteps = std::map<std::int64_t, std::vector<Logged>>;

std::vector<double> Finite(const std::vector<Logged>& said) {
  std::vector<double> values;
  for (const Logged& one : said)
    if (std::isfinite(one.value)) values.push_back(one.value);
  return values;
}

// The median over the ranks, of the steps before this one, the newest last.
std::vector<double> Before(const MetricBySteps& metric, std::int64_t step) {
  std::vector<double> levels;
  for (auto at = metric.lower_bound(step); at != metric.begin() && levels.size() < kMostBefore;) {
    --at;
    if (std::vector<double> values = Finite(at->second); !values.empty()) levels.push_back(Median(std::move(values)));
  }
  std::reverse(levels.begin(), levels.end());
  return levels;
}

std::int64_t First(const std::vector<Logged>& said) {
  std::int64_t at_ns = INT64_MAX;
  for (const Logged& one : said) at_ns = std::min(at_ns, one.at_ns);
  return at_ns;
}

class Numbers {
 public:
  explicit Numbers(const std::vector<RankNumbers>& ranks) {
    for (const RankNumbers& of : ranks)
      for (const reader::Note& note : *of.notes)
        if (note.kind == format::NoteKind::kMetric && note.step != format::kNoStep)
          metrics_[note.name][note.step].push_back({of.rank, note.value, note.at_ns + of.shift_ns});
  }

  // In the first step with such a number. What is reduced over the ranks has it on all of them at once: the number that
  // the fewest ranks have so tells whose it was.
  std::optional<NumberFault> NotFinite() const {
    std::optional<NumberFault> first;
    for (const auto& [name, metric] : metrics_)
      for (const auto& [step, said] : metric) {
        if (first && step > first->step) break;
        NumberFault fault{.what = NumberFault::What::kNotFinite, .metric = name, .step = step, .at_ns = First(said)};
        for (const Logged& one : said)
          if (!std::isfinite(one.value)) fault.ranks.push_back(one.rank);
        fault.all = said.size();
        if (fault.ranks.empty()) continue;
        if (first && step == first->step && fault.ranks.size() >= first->ranks.size()) continue;
        first = std::move(fault);
      }
    if (!first) return std::nullopt;
    std::sort(first->ranks.begin(), first->ranks.end());
    if (first->ranks.size() == first->all) first->ranks.clear();
    if (const std::vector<double> before = Before(metrics_.at(first->metric), first->step); !before.empty())
      first->before = before.back();
    first->gradient_rise = GradientRise(first->step);
    return first;
  }

  std::optional<NumberFault> Spike() const {
    const auto loss = metrics_.find(kLossMetric);
    if (loss == metrics_.end()) return std::nullopt;
    for (const auto& [step, said] : loss->second) {
      const std::vector<double> before = Before(loss->second, step), now = Finite(said);
      if (before.size() < kFewestBefore || now.empty()) continue;
      const double level = Median(before);
      const double sigma = std::max(RobustSigma(before, level), kLeastSigma * std::abs(level));
      if (sigma <= 0) continue;
      const double worst = *std::max_element(now.begin(), now.end());
      const double score = (worst - level) / sigma;
      if (score < kSpike) continue;
      NumberFault fault{.what = NumberFault::What::kSpike, .metric = kLossMetric, .step = step, .at_ns = First(said)};
      for (const Logged& one : said)
        if (std::isfinite(one.value) && (one.value - level) / sigma >= kSpike / 2) fault.ranks.push_back(one.rank);
      fault.all = said.size();
      if (2 * fault.ranks.size() > said.size()) fault.ranks.clear();
      fault.before = level;
      fault.value = worst;
      fault.score = score;
      return fault;
    }
    return std::nullopt;
  }

  std::optional<NumberFault> Divergence() const {
    std::optional<NumberFault> first;
    for (auto metric = metrics_.lower_bound(kReplica); metric != metrics_.end() && metric->first.starts_with(kReplica);
         ++metric)
      for (const auto& [step, said] : metric->second) {
        if (first && step >= first->step) break;
        if (auto fault = Differ(metric->first, step, said)) first = std::move(fault);
      }
    return first;
  }

 private:
  static std::optional<NumberFault> Differ(const std::string& name, std::int64_t step,
                                           const std::vector<Logged>& said) {
    std::map<double, std::vector<int>> groups;
    for (const Logged& one : said)
      if (std::isfinite(one.value)) groups[one.value].push_back(one.rank);
    if (groups.size() < 2) return std::nullopt;
    const auto most = std::max_element(groups.begin(), groups.end(),
                                       [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    NumberFault fault{.what = NumberFault::What::kDivergence, .metric = name, .step = step, .at_ns = First(said)};
    fault.all = said.size();
    fault.before = most->first;
    for (const auto& [value, ranks] : groups) {
      if (value == most->first) continue;
      fault.ranks.insert(fault.ranks.end(), ranks.begin(), ranks.end());
      fault.value = value;
    }
    std::sort(fault.ranks.begin(), fault.ranks.end());
    if (2 * fault.ranks.size() >= said.size()) fault.ranks.clear();
    return fault;
  }

  std::optional<double> GradientRise(std::int64_t step) const {
    const auto gradient = metrics_.find(kGradient);
    if (gradient == metrics_.end()) return std::nullopt;
    const std::vector<double> before = Before(gradient->second, step);
    if (before.size() < 2) return std::nullopt;
    const double level = Median(std::vector<double>(before.begin(), before.end() - 1));
    return level > 0 ? std::optional(before.back() / level) : std::nullopt;
  }

  std::map<std::string, MetricBySteps, std::less<>> metrics_;
};

}  // namespace

std::vector<NumberFault> FindNumberFaults(const std::vector<RankNumbers>& ranks) {
  const Numbers numbers(ranks);
  std::vector<NumberFault> faults;
  for (std::optional<NumberFault> fault : {numbers.NotFinite(), numbers.Spike(), numbers.Divergence()})
    if (fault) faults.push_back(*std::move(fault));
  std::stable_sort(faults.begin(), faults.end(), [](const auto& a, const auto& b) { return a.step < b.step; });
  return faults;
}

}  // namespace ncclwatch::diagnosis
