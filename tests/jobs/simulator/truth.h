// What is true of a generated job, told in the names of the contract alone: which answers a correct tool may give. It
// is worked out from the fault and what NCCL makes of it, never from what a diagnosis says.
#pragma once

#include <string>
#include <vector>

namespace ncclwatch::jobs {

// Right if every rank of `include` is a culprit, no other than those of `within`, and at least so many.
struct Answer {
  std::string kind;
  std::vector<int> include, within;
  bool may_be_certain = true;
  std::size_t least = 0;
  // Where boxes are missing: those whom perhaps nobody is left to outvote may be named beside `include`.
  std::vector<int> voters = {};
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
// Some of the boxes are missing, or not everybody has arrived yet: some of the culprits, and voters beside them.
Match PartMatchOf(const Truth& truth, const std::string& kind, const std::vector<int>& culprits);
std::string ToJson(const Truth& truth, const std::string& command);

}  // namespace ncclwatch::jobs
