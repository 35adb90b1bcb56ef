// A recorded job as operations that wait for one another, run again with other durations.
//
// After X. Zheng et al., "Understanding Stragglers in Large Model Training Using What-if Analysis", section 3: an
// operation begins when all before it are over; one that communicates also waits until all that take part have begun,
// and what it takes from then on is its own. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/reader/operation.h"

namespace ncclwatch::analyzer::ideal {

struct Operation {
  std::int64_t began_ns = 0, ended_ns = 0;   // as recorded, on one clock for all
  std::int64_t delay_ns = 0;                 // from the end of what it waits for to its beginning
  std::int64_t actual_ns = 0, ideal_ns = 0;  // once all that it waits for is there
  std::uint32_t name = 0;                    // what it is reported as
  std::uint32_t like = 0;                    // operations of this number are expected to take equally long
  std::uint32_t worker = 0;
  std::uint32_t step = 0;
  std::uint64_t lane = 0;
  reader::OperationKind kind{};
};

struct Worker {
  int rank = -1, stage = -1, replica = -1;
};

// Pairs of places, ordered by the first one.
class Edges {
 public:
  void Add(std::uint32_t from, std::uint32_t to) { pairs_.emplace_back(from, to); }
  void Seal(std::size_t froms);
  template <typename Take>
  void Each(std::uint32_t from, Take take) const {
    for (std::size_t i = first_[from]; i < first_[from + 1]; ++i) take(pairs_[i].second);
  }
  const std::vector<std::pair<std::uint32_t, std::uint32_t>>& pairs() const { return pairs_; }

 private:
  std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs_;
  std::vector<std::size_t> first_;
};

struct Model {
  std::vector<std::string> names;
  std::vector<Worker> workers;
  std::vector<std::uint64_t> steps;  // their numbers
  std::vector<Operation> operations;
  std::uint32_t meetings = 0;
  Edges before;     // from an operation to what it waits for the end of
  Edges members;    // from a meeting to the operations whose beginning it waits for
  Edges waits_for;  // from an operation to the meetings that it waits for
  std::vector<std::string> notes;

  std::uint32_t Meet() { return meetings++; }
};

// Orders the edges, and computes of each operation what it took on its own, and the ideal: of computation the mean of
// those alike, of communication the median.
void Seal(Model* model);

// Runs a sealed model. Not thread-safe.
class Simulation {
 public:
  explicit Simulation(const Model& model);
  // Operations that wait for one another in a circle, as clocks that disagree may make them seem to: left out of the
  // order, they wait for nothing.
  std::size_t in_circles() const { return in_circles_; }

  // Mean of a step in seconds, if the operations for which `ideal` is true take as long as those alike, and the others
  // as long as they took.
  template <typename Ideal>
  double Run(Ideal ideal) {
    for (std::size_t i = 0; i < takes_.size(); ++i)
      takes_[i] = ideal(model_.operations[i]) ? model_.operations[i].ideal_ns : model_.operations[i].actual_ns;
    return Run();
  }
  // Of the last run: when an operation began and ended, from the beginning of the job or, where steps are independent,
  // of its step.
  std::int64_t start_ns(std::size_t operation) const { return start_[operation]; }
  std::int64_t end_ns(std::size_t operation) const { return end_[operation]; }
  bool chained() const { return chained_; }

 private:
  // What happens, in an order in which causes come first: an operation begins, all of a meeting have begun, one ends.
  enum class Event : std::uint8_t { kBegin, kMeet, kEnd };
  void Order();
  double Run();

  const Model& model_;
  std::vector<std::pair<Event, std::uint32_t>> order_;
  std::vector<std::int64_t> takes_, start_, end_, met_;
  std::size_t in_circles_ = 0;
  bool chained_ = false;
};

}  // namespace ncclwatch::analyzer::ideal
