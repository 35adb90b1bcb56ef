// The rules that there are: one function each, of the rows of rules.def.
#pragma once

#include "core/rules/rule.h"

namespace ncclwatch::diagnosis {

#define RULE(function, ...) std::vector<Finding> function(const Facts& facts);
#define EXPLANATION(function, ...) void function(const Facts& facts, std::vector<Finding>* findings);
#include "core/rules/rules.def"
#undef RULE
#undef EXPLANATION

const RuleTable& AllRules();

}  // namespace ncclwatch::diagnosis
