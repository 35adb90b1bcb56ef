// What `ncclwatch triage` prints.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "analyzer/triage/verdict.h"

namespace ncclwatch::analyzer {

// What failed, in a line: for a job that may go on.
std::string FailureLine(const Triage& triage);
std::string TriageText(const Triage& triage);
nlohmann::ordered_json TriageJson(const Triage& triage);

}  // namespace ncclwatch::analyzer
