// What to change so that a fault does not come again: one sentence for each kind, the last of the next steps of every
// finding. docs/DIAGNOSES.md has it in the section of the kind, word for word (a test compares them). What to do about
// the case at hand is said by whoever explains it, with its ranks and processes.
#pragma once

#include <string>
#include <string_view>

#include "core/model/finding.h"

namespace ncclwatch::diagnosis {

std::string_view Advice(Kind kind);
std::string ForGood(Kind kind);  // the advice as a next step
void AddAdvice(Finding* finding);

}  // namespace ncclwatch::diagnosis
