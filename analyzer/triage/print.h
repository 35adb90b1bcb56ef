// What `ncclwatch triage` prints.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "analyzer/triage/verdict.h"

namespace ncclwatch::analyzer {

std::string TriageText(const Triage& triage);
nlohmann::ordered_json TriageJson(const Triage& triage);

}  // namespace ncclwatch::analyzer
