// What jobs that did not end well have left in the default places is kept for diagnosis, up to an age and a size in
// sum (NCCLWATCH_KEEP), and never more than a quarter of a file system. A later job of the same user removes the rest.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "watchdog/settings/settings.h"

namespace ncclwatch::rundir {

class Sweep {
 public:
  // `own`: the run directory of this process, which stays as all that live do. Reads the environment: not on a thread
  // of ours, the application may be changing it.
  Sweep(const settings::Keep& keep, std::string own);
  // A little of it: looks at one place, or removes one directory. False once there is nothing to do any more.
  bool Step();

 private:
  struct Leftover {
    std::string path;
    std::int64_t touched_ns = 0;  // CLOCK_REALTIME
    std::uint64_t bytes = 0;
  };
  void LookAtBase(const std::string& base);

  settings::Keep keep_;
  std::string own_;
  std::deque<std::string> bases_;
  std::deque<Leftover> doomed_;
};

}  // namespace ncclwatch::rundir
