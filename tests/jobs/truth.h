// What is true of a generated job, told in the names of the contract alone: which answers a correct tool may give. It
// is worked out from the fault and what NCCL makes of it, never from what a diagnosis says.
#pragma once

#include <string>
#include <vector>

namespace ncclwatch::jobs {

// Right if every rank of `include` is a culprit, and no other than those of `within`.
struct Answer {
  std::string kind;
  std::vector<int> include, within;
  bool may_be_certain = true;
};

struct Truth {
  std::string fault;
  std::string story;            // one sentence
  std::vector<Answer> answers;  // any of them is right as the first finding; the best first
  bool silence = false;         // finding nothing is right as well
  bool may_be_certain = true;   // any of them; a wrong one never may
};

Answer Exactly(const std::string& kind, std::vector<int> culprits);
enum class Match { kNone, kNotCertainly, kFully };
// kNotCertainly: right as long as it is not called certain.
Match MatchOf(const Truth& truth, const std::string& kind, const std::vector<int>& culprits);
std::string ToJson(const Truth& truth, const std::string& command);

}  // namespace ncclwatch::jobs
