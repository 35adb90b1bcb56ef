// Reading a launcher's environment, of this process or of another one.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "watchdog/rundir/patience.h"
#include "watchdog/rundir/run_directory.h"

namespace ncclwatch::rundir {

// The value of a variable, or none.
using Lookup = std::function<std::optional<std::string_view>(std::string_view)>;

enum class Launcher { kNone, kTorchrun, kOpenMpi, kMpich, kSlurm, kPlain };

struct Place {  // of one process in its job
  Launcher launcher = Launcher::kNone;
  std::int32_t rank = -1;
  std::int32_t world_size = 0;
  std::int32_t local_rank = -1;
  std::int32_t local_world_size = 0;
};
Place PlaceFrom(const Lookup& lookup);

// pid and start time of the process that started the ranks of this node: the nearest ancestor of `pid` that is not
// itself part of one rank (a wrapper script, a debugger), nor what `pid` was forked from without an exec: that may be
// a rank like it. Every rank of one start on a node finds the same one. An ancestor that does not answer is taken for
// it.
struct Instance {
  std::int32_t pid = 0;
  std::uint64_t start_time = 0;
};
Instance InstanceOf(std::int32_t pid, const Place& place, const Patience& patience = {});

}  // namespace ncclwatch::rundir
