// What a roll call says of a job: who waits, and for whom. Pure.
#pragma once

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

// "all_reduce, called from train (train.py:24), at step 17"
std::string InText(const Standing& one);

}  // namespace ncclwatch::analyzer::attach
