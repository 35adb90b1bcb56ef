#include "tests/jobs/truth.h"

#include <algorithm>

namespace ncclwatch::jobs {
namespace {

std::string List(const std::vector<int>& ranks) {
  std::string text = "[";
  for (const int rank : ranks) text += (text.size() > 1 ? ", " : "") + std::to_string(rank);
  return text + "]";
}

std::vector<int> Sorted(std::vector<int> ranks) {
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

bool Includes(const std::vector<int>& all, const std::vector<int>& some) {
  const std::vector<int> a = Sorted(all), b = Sorted(some);
  return std::includes(a.begin(), a.end(), b.begin(), b.end());
}

bool Share(const std::vector<int>& some, const std::vector<int>& others) {
  return std::any_of(some.begin(), some.end(),
                     [&](int rank) { return std::find(others.begin(), others.end(), rank) != others.end(); });
}

Match Of(const Answer& answer) { return answer.may_be_certain ? Match::kFully : Match::kNotCertainly; }

std::string Yes(bool value) { return value ? "true" : "false"; }

}  // namespace

Answer Exactly(const std::string& kind, std::vector<int> culprits) { return {kind, culprits, culprits}; }

Match MatchOf(const Truth& truth, const std::string& kind, const std::vector<int>& culprits) {
  Match best = Match::kNone;
  for (const Answer& answer : truth.answers) {
    if (answer.kind != kind || culprits.size() < answer.least) continue;
    if (!Includes(culprits, answer.include) || !Includes(answer.within, culprits)) continue;
    best = std::max(best, Of(answer));
  }
  return best;
}

Match PartMatchOf(const Truth& truth, const std::string& kind, const std::vector<int>& culprits) {
  Match best = Match::kNone;
  for (const Answer& answer : truth.answers) {
    const bool known = Includes(answer.within, culprits) || Includes(answer.voters, culprits);
    if (answer.kind != kind || !known) continue;
    if (answer.include.empty() || Share(answer.include, culprits)) best = std::max(best, Of(answer));
  }
  return best;
}

std::string ToJson(const Truth& truth, const std::string& command) {
  std::string text = "{\"schema\": \"ncclwatch.job_truth/1\",\n \"command\": \"" + command + "\",\n \"fault\": \"" +
                     truth.fault + "\",\n \"story\": \"" + truth.story +
                     "\",\n \"silence_is_right\": " + Yes(truth.silence) + ",\n \"answers\": [";
  for (const Answer& answer : truth.answers) {
    text += std::string(&answer == truth.answers.data() ? "" : ",") + "\n  {\"kind\": \"" + answer.kind +
            "\", \"culprits_include\": " + List(answer.include) + ", \"culprits_within\": " + List(answer.within) +
            ", \"culprits_at_least\": " + std::to_string(answer.least) +
            ", \"may_be_certain\": " + Yes(answer.may_be_certain) + "}";
  }
  return text + "]}\n";
}

}  // namespace ncclwatch::jobs
