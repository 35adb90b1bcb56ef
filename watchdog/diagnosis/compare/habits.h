// What a rank does again and again, and where it has done otherwise. Pure, on numbers that stand for calls. Bolder than
// period.h: two equal steps are a habit, since whoever asks has other evidence beside it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "watchdog/diagnosis/compare/period.h"

namespace ncclwatch::diagnosis {

// A place where the calls are not what they have always been there. What has happened before is none: an evaluation
// now and then.
struct Break {
  enum class How {
    kReplaced,   // another call in place of the usual one
    kExchanged,  // the usual one and a later one have changed places
    kLeftOut,    // the usual one has not been made
    kExtra,      // a call that has not been made here before
    kResized,    // the usual call with another size
    kOther       // something else altogether
  };
  How how{};
  std::size_t at = 0;     // the call that is not the usual one; if one is left out, the next call
  std::size_t usual = 0;  // an earlier call that is as it always was; of an exchange, of an extra one and of something
                          // else the one that was to be made here
  std::size_t other = 0;  // of an exchange: an earlier call like the one that has come too early
  std::size_t steps = 0;  // so many steps before were as always
};

struct Habit {
  std::size_t length = 0;  // calls of a step
  std::size_t steps = 0;   // that are as all are
  std::vector<Break> breaks;
};

// `sizes`: of each call, what may differ from step to step. None without two equal steps in a row.
std::optional<Habit> FindHabit(const std::vector<Symbol>& calls, const std::vector<std::uint64_t>& sizes);

}  // namespace ncclwatch::diagnosis
