#include "core/slow/points.h"

#include <algorithm>
#include <utility>

#include "core/slow/robust.h"

namespace ncclwatch::diagnosis {
namespace {

constexpr double kSeenOnce = 0.9;  // of a step's calls, timed within a point

double LengthOf(const StepTable& table, std::size_t step) {
  std::vector<double> durations;
  for (const auto& row : table.parts)
    if (row[step].duration_ns > 0) durations.push_back(static_cast<double>(row[step].duration_ns));
  return std::max(1.0, Median(std::move(durations)));
}

}  // namespace

Points PointsOfCalls(const StepTable& table) {
  Points points;
  for (std::size_t step = 0; step < table.steps(); ++step) {
    points.first.push_back(step);
    points.step_ns.push_back(LengthOf(table, step));
  }
  for (const auto& row : table.parts) {
    std::vector<double>& late = points.late.emplace_back();
    for (std::size_t step = 0; step < row.size(); ++step)
      late.push_back(static_cast<double>(row[step].late_ns) / points.step_ns[step]);
  }
  return points;
}

Points PointsOfOwnTime(const StepTable& table) {
  bool blocks = false;
  std::size_t told = 0;  // parts of steps of which collectives tell who was late
  for (const auto& row : table.parts)
    for (const StepPart& part : row) {
      blocks = blocks || part.message_ns > 0 || part.exposed_ns > 0;
      told += part.late_ns != 0 || part.kernel_late_ns != 0;
    }
  constexpr double kMostTold = 0.1;
  if (!blocks || static_cast<double>(told) > kMostTold * static_cast<double>(table.parts.size() * table.steps()))
    return {};
  const auto blocked = [](const StepPart& part) { return static_cast<double>(part.duration_ns - part.compute_ns()); };
  Points points;
  std::vector<double> usual, waited;  // by step: outside of calls, and for how long the one waited that waited longest
  for (std::size_t step = 0; step < table.steps(); ++step) {
    points.first.push_back(step);
    points.step_ns.push_back(LengthOf(table, step));
    std::vector<double> own;
    waited.push_back(0);
    for (const auto& row : table.parts) {
      own.push_back(static_cast<double>(row[step].compute_ns()));
      waited.back() = std::max(waited.back(), blocked(row[step]));
    }
    usual.push_back(Median(std::move(own)));
  }
  for (const auto& row : table.parts) {
    std::vector<double>& late = points.late.emplace_back();
    // What a rank does before its next step's first call the others wait for in that step.
    for (std::size_t step = 0; step < row.size(); ++step) {
      const std::size_t next = std::min(step + 1, row.size() - 1);
      const double spared = std::max(waited[step] - blocked(row[step]), waited[next] - blocked(row[next]));
      late.push_back(std::min(static_cast<double>(row[step].compute_ns()) - usual[step], spared) /
                     points.step_ns[step]);
    }
  }
  return points;
}

Points PointsOfKernels(const StepTable& table) {
  Points points;
  points.by_kernels = true;
  points.late.resize(table.parts.size());
  struct Sum {
    double late_ns = 0, timed = 0, collectives = 0;
  };
  std::vector<Sum> sums(table.parts.size());
  double time_ns = 0, timed = 0, collectives = 0;
  std::size_t first = 0;
  for (std::size_t step = 0; step < table.steps(); ++step) {
    time_ns += LengthOf(table, step);
    for (std::size_t row = 0; row < sums.size(); ++row) {
      const StepPart& part = table.parts[row][step];
      sums[row].late_ns += static_cast<double>(part.kernel_late_ns);
      sums[row].timed += part.timed;
      sums[row].collectives += part.collectives;
      timed += part.timed;
      collectives += part.collectives;
    }
    const auto steps = static_cast<double>(step + 1 - first);
    if (timed <= 0 || timed * steps < kSeenOnce * collectives) continue;
    points.first.push_back(first);
    points.step_ns.push_back(time_ns / steps);
    for (std::size_t row = 0; row < sums.size(); ++row) {
      const Sum& sum = sums[row];
      points.late[row].push_back(sum.timed > 0 ? sum.late_ns * sum.collectives / sum.timed / time_ns : 0);
    }
    sums.assign(sums.size(), {});
    time_ns = timed = collectives = 0;
    first = step + 1;
  }
  return points;
}

Points PointsOfTimedKernels(const StepTable& table) {
  Points points;
  points.by_kernels = true;
  double timed = 0, collectives = 0;
  for (std::size_t step = 0; step < table.steps(); ++step) {
    points.first.push_back(step);
    points.step_ns.push_back(LengthOf(table, step));
  }
  for (const auto& row : table.parts) {
    std::vector<double>& late = points.late.emplace_back();
    for (std::size_t step = 0; step < row.size(); ++step) {
      late.push_back(static_cast<double>(row[step].kernel_late_ns) / points.step_ns[step]);
      timed += row[step].timed;
      collectives += row[step].collectives;
    }
  }
  if (timed <= 0) return {};
  points.seen = timed / collectives;
  return points;
}

}  // namespace ncclwatch::diagnosis
