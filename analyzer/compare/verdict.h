// The verdict over two sides. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analyzer/compare/bootstrap.h"
#include "analyzer/compare/side.h"

namespace ncclwatch::compare {

struct Request {
  double tolerance = 0.05;  // changes up to that share are none
  std::vector<std::pair<std::string, Better>>
      only;  // metrics that decide; empty: step_time where there is one, else all
};

enum class Verdict { kFixed, kNotFixed, kRegression, kImprovement, kUnchanged, kInconclusive };
enum class MetricVerdict {
  kBetter,
  kWorse,
  kSame,
  kInconclusive,
  kReported
};  // kTold: nobody knows which way is better
const char* Name(Verdict verdict);
const char* Name(MetricVerdict verdict);

struct Level {
  std::size_t n = 0;  // values of all trials
  double median = 0, mean = 0;
};

struct Compared {
  std::string name, unit;
  Better better = Better::kUnknown;
  Level before, after;
  Change change;
  MetricVerdict verdict = MetricVerdict::kInconclusive;
  bool decides = false;
};

struct Outcome {                       // of --problem, or of the findings of both sides
  bool before = false, after = false;  // the problem shows
  std::string what;
};

struct Comparison {
  Verdict verdict = Verdict::kInconclusive;
  std::vector<Compared> metrics;  // those that decide first
  std::optional<Outcome> problem;
  struct Difference {
    std::string what, before, after;
  };
  std::vector<Difference> environment;
  std::vector<std::string> notes;
};

// False alarms over all metrics of a comparison together: one in a hundred.
inline constexpr double kFalseAlarms = 0.01;

Comparison Compare(const Side& before, const Side& after, const Request& request, std::optional<Outcome> problem);
// The first finding of `before`, and whether `after` has one of its kind. None: `before` has no finding.
std::optional<Outcome> OutcomeOfFindings(const Side& before, const Side& after);

}  // namespace ncclwatch::compare
