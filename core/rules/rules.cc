#include "core/rules/rules.h"

namespace ncclwatch::diagnosis {
namespace {

using enum Kind;
using enum Phase;

constexpr Rule kRules[] = {
#define RULE(function, ...) {.name = #function, .find = function, __VA_ARGS__},
#define EXPLANATION(function, ...)
#include "core/rules/rules.def"
#undef RULE
#undef EXPLANATION
};

constexpr Explanation kExplanations[] = {
#define RULE(function, ...)
#define EXPLANATION(function, ...) {.name = #function, .explain = function, __VA_ARGS__},
#include "core/rules/rules.def"
#undef RULE
#undef EXPLANATION
};

}  // namespace

const RuleTable& AllRules() {
  static constexpr RuleTable table{kRules, kExplanations};
  return table;
}

}  // namespace ncclwatch::diagnosis
