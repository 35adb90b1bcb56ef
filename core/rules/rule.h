// A rule finds one family of faults in the view of a job. rules.def has one row for each; engine.h runs them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "core/compare/align.h"
#include "core/model/finding.h"
#include "core/rules/certainty.h"
#include "core/rules/describe.h"
#include "core/view/view.h"
#include "core/waits/waits.h"

namespace ncclwatch::diagnosis {

// In the order in which the engine runs them.
enum class Phase : std::uint8_t {
  kComparison,     // calls of one communicator that differ; the wait-for graph is made from what this finds
  kContradiction,  // ranks contradict one another in other ways; the ranks they block are added to the graph
  kMisuse,         // what one process does wrong, whatever the others do
  kDeath,          // who ended; later deaths are consequences
  kStandstill,     // who keeps the others waiting. Also run on the job as it was just before it began to end
  kBeforeDeath,  // without such a standstill: what happened to others before the first death, which is findings.front()
  kAfterwards,   // what the findings above leave unexplained, and what harms nobody
};

// What must be there for a rule to be asked.
enum class Needs : std::uint8_t {
  kNothing,
  kMpi,           // a communicator of MPI
  kAllFinalized,  // all ranks have called MPI_Finalize
};

// What makes a rule superfluous.
enum class Unless : std::uint8_t {
  kNever,
  kRowAboveFound,  // one of a chain of alternatives: a row above in the chain has found something
  kPhaseFound,     // a row above in the same phase has
  kAnythingFound,  // there is a finding already
};

class KindSet {
 public:
  constexpr KindSet() = default;
  constexpr KindSet(std::initializer_list<Kind> kinds) {
    for (const Kind kind : kinds) bits_ |= Bit(kind);
  }
  constexpr bool Has(Kind kind) const { return (bits_ & Bit(kind)) != 0; }

 private:
  static constexpr std::uint64_t Bit(Kind kind) { return std::uint64_t{1} << static_cast<unsigned>(kind); }
  std::uint64_t bits_ = 0;
};

struct Mismatch {
  int comm = -1;
  Difference difference;
  Finding finding;
};

struct Facts {
  const View& view;
  WaitGraph& graph;                      // empty in kComparison; rules add ranks that they have explained
  std::vector<Mismatch>& mismatches;     // filled in kComparison
  const std::vector<Finding>& findings;  // so far, the root cause first
};

struct Rule {
  std::string_view name;  // of the function
  std::vector<Finding> (*find)(const Facts& facts) = nullptr;
  Phase phase{};
  KindSet makes{};
  KindSet fatal{};  // of these, what a process may die of: such a finding goes before the death of its culprit
  Needs needs = Needs::kNothing;
  Unless unless = Unless::kNever;
};

// Looks at the findings of kStandstill once they are made: replaces those whose cause it knows, or adds to their
// evidence where it is not sure.
struct Explanation {
  std::string_view name;
  void (*explain)(const Facts& facts, std::vector<Finding>* findings) = nullptr;
  KindSet explains{};
  KindSet makes{};
};

struct RuleTable {
  std::span<const Rule> rules;
  std::span<const Explanation> explanations;
};

}  // namespace ncclwatch::diagnosis
