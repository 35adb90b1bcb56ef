#include "analyzer/ideal/ideal.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "ncclwatch/nanoseconds.h"

namespace ncclwatch::analyzer::ideal {
namespace {

constexpr std::size_t kMostRunsOfWorkers = 128;  // beyond that, by rows and columns
constexpr double kWorstShare = 0.03;             // of the workers, as M_W has it
constexpr double kNoSlowdown = 1e-6;             // of the step

// Where each worker stands in a grid: (replica, stage) where the source tells them, as the paper has it, else a square.
struct Grid {
  std::vector<int> row, column;
  bool told = false;
};

Grid GridOf(const Model& model) {
  Grid grid;
  const auto& workers = model.workers;
  grid.told = !workers.empty() && std::all_of(workers.begin(), workers.end(),
                                              [](const Worker& one) { return one.stage >= 0 && one.replica >= 0; });
  const auto side = static_cast<int>(std::ceil(std::sqrt(static_cast<double>(workers.size()))));
  for (std::size_t i = 0; i < workers.size(); ++i) {
    grid.row.push_back(grid.told ? workers[i].replica : static_cast<int>(i) / side);
    grid.column.push_back(grid.told ? workers[i].stage : static_cast<int>(i) % side);
  }
  return grid;
}

double RecordedStep(const Model& model, bool chained) {
  struct Span {
    std::int64_t begin = INT64_MAX, end = INT64_MIN;
  };
  std::vector<Span> spans(model.steps.size());
  for (const Operation& one : model.operations) {
    Span& span = spans[chained ? 0 : one.step];
    span.begin = std::min(span.begin, one.began_ns);
    span.end = std::max(span.end, one.ended_ns);
  }
  double sum = 0;
  for (const Span& span : spans)
    if (span.begin < span.end) sum += InSeconds(span.end - span.begin);
  return sum / static_cast<double>(spans.size());
}

class Analysis {
 public:
  Analysis(const Model& model, absl::FunctionRef<void(double)> done) : model_(model), simulation_(model), done_(done) {}

  Result Take() {
    result_.steps = model_.steps.size();
    result_.notes = model_.notes;
    if (simulation_.in_circles() > 0)
      result_.notes.push_back("clocks disagree: some operations seem to wait for one another in a circle");
    result_.recorded_s = RecordedStep(model_, simulation_.chained());
    CountRuns();
    result_.actual_s = Run([](const Operation&) { return false; });
    result_.ideal_s = Run([](const Operation&) { return true; });
    AddOps();
    AddWorkers();
    Explain();
    return std::move(result_);
  }

 private:
  template <typename Ideal>
  double Run(Ideal ideal) {
    const double step_s = simulation_.Run(ideal);
    done_(std::min(1.0, static_cast<double>(++run_) / static_cast<double>(std::max<std::size_t>(runs_, 1))));
    return step_s;
  }
  double SlowdownOf(double step_s) const { return result_.ideal_s > 0 ? step_s / result_.ideal_s : 1; }

  void CountRuns() {
    grid_ = GridOf(model_);
    result_.by_grid = grid_.told || model_.workers.size() > kMostRunsOfWorkers;
    const auto different = [](const std::vector<int>& places) { return std::set(places.begin(), places.end()).size(); };
    const std::size_t of_workers =
        result_.by_grid ? different(grid_.row) + different(grid_.column) : model_.workers.size();
    runs_ = 5 + model_.names.size() + of_workers;
  }

  void AddOps() {
    for (std::uint32_t name = 0; name < model_.names.size(); ++name)
      result_.ops.push_back(
          {model_.names[name], -1, SlowdownOf(Run([&](const Operation& one) { return one.name != name; }))});
    std::stable_sort(result_.ops.begin(), result_.ops.end(),
                     [](const Slowdown& a, const Slowdown& b) { return a.slowdown > b.slowdown; });
  }

  // By the number of a row or column.
  std::map<int, double> SlowdownsOf(const std::vector<int>& place_of) {
    std::map<int, double> slowdowns;
    for (const int place : std::set(place_of.begin(), place_of.end()))
      slowdowns[place] = SlowdownOf(Run([&](const Operation& one) { return place_of[one.worker] != place; }));
    return slowdowns;
  }

  void AddWorkers() {
    std::map<int, double> of_row, of_column;
    if (result_.by_grid) {
      of_row = SlowdownsOf(grid_.row);
      of_column = SlowdownsOf(grid_.column);
    }
    for (std::uint32_t i = 0; i < model_.workers.size(); ++i) {
      const double slowdown = result_.by_grid ? std::min(of_row[grid_.row[i]], of_column[grid_.column[i]])
                                              : SlowdownOf(Run([&](const Operation& one) { return one.worker != i; }));
      result_.ranks.push_back({"", model_.workers[i].rank, slowdown});
    }
    if (grid_.told)
      for (const auto& [stage, slowdown] : of_column) result_.stages.push_back({"", stage, slowdown});
  }

  // What of the slowdown is gone without what these workers have lost.
  template <typename Fixed>
  std::optional<double> Explained(Fixed fixed) {
    const double lost = result_.actual_s - result_.ideal_s;
    if (std::abs(lost) <= kNoSlowdown * result_.actual_s) return std::nullopt;
    return (result_.actual_s - Run([&](const Operation& one) { return fixed(one.worker); })) / lost;
  }

  void Explain() {
    std::vector<std::uint32_t> order(model_.workers.size());
    for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
      return result_.ranks[a].slowdown > result_.ranks[b].slowdown;
    });
    if (order.empty()) return;
    const std::uint32_t first = order.front();
    result_.worst_rank = model_.workers[first].rank;
    result_.worst_rank_explains = Explained([&](std::uint32_t worker) { return worker == first; });
    order.resize(static_cast<std::size_t>(std::ceil(static_cast<double>(order.size()) * kWorstShare)));
    const std::set<std::uint32_t> worst(order.begin(), order.end());
    for (const std::uint32_t one : worst) result_.worst_ranks.push_back(model_.workers[one].rank);
    result_.worst_ranks_explain = Explained([&](std::uint32_t worker) { return worst.contains(worker); });
    if (!grid_.told || result_.stages.size() < 2) return;
    const int last = result_.stages.back().number;
    result_.last_stage_explains = Explained([&](std::uint32_t worker) { return grid_.column[worker] == last; });
  }

  const Model& model_;
  Simulation simulation_;
  absl::FunctionRef<void(double)> done_;
  Grid grid_;
  Result result_;
  std::size_t runs_ = 0, run_ = 0;
};

}  // namespace

Result Analyze(const Model& model, absl::FunctionRef<void(double)> done) { return Analysis(model, done).Take(); }

}  // namespace ncclwatch::analyzer::ideal
