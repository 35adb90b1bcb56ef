// A verdict of attach for programs, for a terminal and for the page.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "analyzer/attach/judge.h"

namespace ncclwatch::analyzer::attach {

// ncclwatch.diagnosis/1 with `roll_call`.
nlohmann::ordered_json ToJson(const diagnosis::Diagnosis& diagnosis, const RollCall& call);

// The roll call as a table, for a person.
std::string ToText(const RollCall& call);

// Where each rank stands, as the page of `ncclwatch report` has it.
nlohmann::ordered_json StacksSection(const RollCall& call);

}  // namespace ncclwatch::analyzer::attach
