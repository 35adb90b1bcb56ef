#include "analyzer/ideal/model.h"

#include <algorithm>
#include <numeric>

#include "core/slow/robust.h"
#include "ncclwatch/nanoseconds.h"

namespace ncclwatch::analyzer::ideal {
namespace {

using reader::OperationKind;

std::vector<std::int64_t> MetAsRecorded(const Model& model) {
  std::vector<std::int64_t> met(model.meetings, INT64_MIN);
  for (const auto& [meeting, operation] : model.members.pairs())
    met[meeting] = std::max(met[meeting], model.operations[operation].began_ns);
  return met;
}

std::int64_t Usual(OperationKind kind, std::vector<std::int64_t> values) {
  if (kind == OperationKind::kCommunication) return diagnosis::Median(std::move(values));
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  return static_cast<std::int64_t>(sum / static_cast<double>(values.size()));
}

void SetIdeals(Model* model) {
  std::vector<std::uint32_t> order(model->operations.size());
  std::iota(order.begin(), order.end(), 0u);
  const auto like = [&](std::uint32_t i) { return model->operations[i].like; };
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return like(a) < like(b); });
  for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    std::vector<std::int64_t> values;
    for (; end < order.size() && like(order[end]) == like(order[begin]); ++end)
      values.push_back(model->operations[order[end]].actual_ns);
    const std::int64_t usual = Usual(model->operations[order[begin]].kind, std::move(values));
    for (std::size_t i = begin; i < end; ++i) model->operations[order[i]].ideal_ns = usual;
  }
}

}  // namespace

void Edges::Seal(std::size_t froms) {
  std::sort(pairs_.begin(), pairs_.end());
  pairs_.erase(std::unique(pairs_.begin(), pairs_.end()), pairs_.end());
  first_.assign(froms + 1, 0);
  for (const auto& [from, to] : pairs_) ++first_[from + 1];
  std::partial_sum(first_.begin(), first_.end(), first_.begin());
}

void Seal(Model* model) {
  const std::size_t operations = model->operations.size();
  model->before.Seal(operations);
  model->waits_for.Seal(operations);
  model->members.Seal(model->meetings);
  const std::vector<std::int64_t> met = MetAsRecorded(*model);
  for (std::uint32_t i = 0; i < operations; ++i) {
    Operation& one = model->operations[i];
    std::int64_t all_there = one.began_ns;
    model->waits_for.Each(i, [&](std::uint32_t meeting) { all_there = std::max(all_there, met[meeting]); });
    one.actual_ns = std::max<std::int64_t>(one.ended_ns - all_there, 0);
  }
  SetIdeals(model);
}

Simulation::Simulation(const Model& model)
    : model_(model),
      takes_(model.operations.size()),
      start_(model.operations.size()),
      end_(model.operations.size()),
      met_(model.meetings) {
  for (const auto& [operation, before] : model.before.pairs())
    chained_ |= model.operations[operation].step != model.operations[before].step;
  Order();
}

// Kahn's algorithm.
void Simulation::Order() {
  const std::size_t operations = model_.operations.size();
  std::vector<std::uint32_t> begin_waits(operations), end_waits(operations, 1), meet_waits(model_.meetings);
  Edges after, meetings_of, waiting;
  for (const auto& [operation, before] : model_.before.pairs()) {
    ++begin_waits[operation];
    after.Add(before, operation);
  }
  for (const auto& [meeting, operation] : model_.members.pairs()) {
    ++meet_waits[meeting];
    meetings_of.Add(operation, meeting);
  }
  for (const auto& [operation, meeting] : model_.waits_for.pairs()) {
    ++end_waits[operation];
    waiting.Add(meeting, operation);
  }
  after.Seal(operations);
  meetings_of.Seal(operations);
  waiting.Seal(model_.meetings);
  order_.reserve(2 * operations + model_.meetings);
  for (std::uint32_t i = 0; i < operations; ++i)
    if (begin_waits[i] == 0) order_.emplace_back(Event::kBegin, i);
  const auto ends = [&](std::uint32_t operation) {
    if (--end_waits[operation] == 0) order_.emplace_back(Event::kEnd, operation);
  };
  for (std::size_t next = 0; next < order_.size(); ++next) {
    const auto [event, which] = order_[next];
    if (event == Event::kBegin) {
      meetings_of.Each(which, [&](std::uint32_t meeting) {
        if (--meet_waits[meeting] == 0) order_.emplace_back(Event::kMeet, meeting);
      });
      ends(which);
    } else if (event == Event::kMeet) {
      waiting.Each(which, ends);
    } else {
      after.Each(which, [&](std::uint32_t operation) {
        if (--begin_waits[operation] == 0) order_.emplace_back(Event::kBegin, operation);
      });
    }
  }
  in_circles_ = static_cast<std::size_t>(
      std::count_if(end_waits.begin(), end_waits.end(), [](std::uint32_t waits) { return waits > 0; }));
}

double Simulation::Run() {
  for (const auto& [event, which] : order_) {
    if (event == Event::kBegin) {
      std::int64_t start = 0;
      model_.before.Each(which, [&](std::uint32_t other) { start = std::max(start, end_[other]); });
      start_[which] = start + model_.operations[which].delay_ns;
    } else if (event == Event::kMeet) {
      std::int64_t met = 0;
      model_.members.Each(which, [&](std::uint32_t operation) { met = std::max(met, start_[operation]); });
      met_[which] = met;
    } else {
      std::int64_t all_there = start_[which];
      model_.waits_for.Each(which, [&](std::uint32_t meeting) { all_there = std::max(all_there, met_[meeting]); });
      end_[which] = all_there + takes_[which];
    }
  }
  std::vector<std::int64_t> ends(std::max<std::size_t>(model_.steps.size(), 1), 0);
  for (std::size_t i = 0; i < end_.size(); ++i) {
    std::int64_t& end = ends[chained_ ? 0 : model_.operations[i].step];
    end = std::max(end, end_[i]);
  }
  return InSeconds(std::accumulate(ends.begin(), ends.end(), std::int64_t{0})) / static_cast<double>(ends.size());
}

}  // namespace ncclwatch::analyzer::ideal
