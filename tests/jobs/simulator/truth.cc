#include "tests/jobs/simulator/truth.h"

#include <absl/strings/str_join.h>
#include <fmt/core.h>

#include <algorithm>

namespace ncclwatch::jobs {
namespace {

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
  std::vector<std::string> answers;
  for (const Answer& answer : truth.answers)
    answers.push_back(fmt::format(
        "\n  {{\"kind\": \"{}\", \"culprits_include\": [{}], \"culprits_within\": [{}], \"culprits_at_least\": {}, "
        "\"may_be_certain\": {}}}",
        answer.kind, absl::StrJoin(answer.include, ", "), absl::StrJoin(answer.within, ", "), answer.least,
        answer.may_be_certain));
  return fmt::format(
      "{{\"schema\": \"ncclwatch.job_truth/1\",\n \"command\": \"{}\",\n \"fault\": \"{}\",\n \"story\": \"{}\",\n "
      "\"silence_is_right\": {},\n \"answers\": [{}]}}\n",
      command, truth.fault, truth.story, truth.silence, absl::StrJoin(answers, ","));
}

}  // namespace ncclwatch::jobs
