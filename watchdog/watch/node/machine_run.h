// What the leader has looked up of its machine: error counters, clocks, links, the kernel's log. The separate program
// looks, beside the heartbeat: a driver that hangs keeps it alone. It leaves what it saw in the run directory
// (reader/beside/machine.h).
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/reader/beside/machine.h"
#include "watchdog/watch/base/context.h"

namespace ncclwatch::watch {

class MachineRun {
 public:
  // environment: outlives this.
  MachineRun(const Context& context, const std::vector<std::string>* environment);

  // Once a minute, and four times where something is wrong. The first look, with which all others compare, comes when
  // the job has run for some seconds.
  void LookIfDue(std::int64_t now_ns, bool wrong);
  // What a look has left, once.
  std::optional<reader::MachineSample> TakeNews();

 private:
  struct Shared {  // with the thread
    std::mutex mutex;
    bool busy = false;
    std::optional<reader::MachineSample> news;
  };
  void Begin();

  const Context& context_;
  const std::vector<std::string>* environment_;
  std::shared_ptr<Shared> shared_;
  bool wrong_ = false, soon_ = false;
  std::int64_t began_ns_ = 0, looked_ns_ = 0;
};

}  // namespace ncclwatch::watch
