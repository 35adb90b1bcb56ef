// What one rank has done otherwise than in its own steps before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/steps/period.h"
#include "core/view/view.h"

namespace ncclwatch::diagnosis {

// What a rank does again and again, and where it has done otherwise. Pure, on numbers that stand for calls. Bolder than
// period.h: two equal steps are a habit, since whoever asks has other evidence beside it.

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

// A call, and the communicator that it is made on.
struct CallOn {
  reader::Call call;
  int comm = -1;  // index into View::comms
};

struct OwnBreak {
  Break::How how{};
  std::optional<CallOn> made;   // what was made and is not usual; none if the usual one was left out
  std::optional<CallOn> usual;  // as an earlier step made it here; none of an extra call
  std::optional<CallOn> other;  // of an exchange: the usual call that was made here
  std::size_t steps = 0;        // so many steps before were as always
  bool in_last_step = false;    // no whole step has followed
};

struct OwnHabit {
  std::size_t steps = 0;  // 0: nothing is known of its habits
  std::vector<OwnBreak> breaks;
};

OwnHabit HabitOf(const View& view, const Node& node);

}  // namespace ncclwatch::diagnosis
