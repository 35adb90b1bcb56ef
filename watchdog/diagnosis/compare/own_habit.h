// What one rank has done otherwise than in its own steps before.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "watchdog/diagnosis/compare/habits.h"
#include "watchdog/diagnosis/view/view.h"

namespace ncclwatch::diagnosis {

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
