// What a roll call says of a job: who waits, and for whom. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "analyzer/attach/roll_call.h"
#include "core/model/finding.h"

namespace ncclwatch::analyzer::attach {

// Ranks that stand in the same place, in the order of their first rank.
struct Group {
  std::vector<const Standing*> members;
  bool moving = false;
};
std::vector<Group> GroupsOf(const RollCall& call);

// Nothing here is ever certain: only the places in which ranks stand are known, and not their calls before. `now_ns`:
// CLOCK_REALTIME.
diagnosis::Diagnosis Judge(const RunningJob& job, const RollCall& call, std::int64_t now_ns);

// ncclwatch.diagnosis/1 with `roll_call`.
nlohmann::ordered_json ToJson(const diagnosis::Diagnosis& diagnosis, const RollCall& call);

// The roll call as a table, for a person.
std::string ToText(const RollCall& call);

}  // namespace ncclwatch::analyzer::attach
