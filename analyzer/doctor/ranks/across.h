// What only several ranks together tell.
#pragma once

#include <string>
#include <vector>

#include "analyzer/doctor/checks/result.h"
#include "analyzer/doctor/ranks/meeting.h"

namespace ncclwatch::doctor {

struct Difference {
  std::string what;
  bool is_version = false;                                       // else a variable
  std::vector<std::pair<std::string, std::vector<int>>> values;  // and the ranks that have it, most first
};
// Versions and variables in which ranks differ. A rank that has none of a name has "" for it.
std::vector<Difference> DifferencesOf(const Gathered& gathered);

struct Finding {  // of one check
  std::string id;
  Result result;
  std::vector<int> ranks;
};
std::vector<Finding> CompareRanks(const Gathered& gathered, const std::vector<Difference>& differences, int world_size,
                                  bool active);

}  // namespace ncclwatch::doctor
