// What `ncclwatch doctor` prints: one row a check, over all ranks.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "analyzer/doctor/checks/machine.h"
#include "analyzer/doctor/ranks/across.h"

namespace ncclwatch::doctor {

struct JobReport {
  int ranks = 0, hosts = 0;
  std::vector<Finding> checks;  // the worst of each over the ranks, and whose that is
  std::vector<Difference> differences;
};

Report ReportOf(const Machine& machine, const std::vector<Finding>& own);  // of one rank, for rank 0
std::vector<Finding> Merge(const Gathered& gathered);                      // in the order of rank 0's checks
nlohmann::ordered_json ToJson(const JobReport& report);
std::string ToText(const JobReport& report, bool all);  // without `all` a PASS is counted only
bool HasFailed(const JobReport& report);

}  // namespace ncclwatch::doctor
