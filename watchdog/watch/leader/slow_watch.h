// What slows a job that goes on, looked for now and then: told once, and again when it changes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "watchdog/diagnosis/model/finding.h"
#include "watchdog/diagnosis/model/snapshot.h"
#include "watchdog/diagnosis/slow/find.h"
#include "watchdog/watch/base/context.h"

namespace ncclwatch::watch {

class SlowWatch {
 public:
  static constexpr std::uint64_t kCalls = 4096;  // the newest of each process, that a look takes in

  explicit SlowWatch(const Context& context) : context_(context) {}
  bool Due(std::int64_t now_ns) const { return now_ns >= next_ns_; }
  // Looks become rarer where they take long.
  void Look(std::int64_t now_ns, const diagnosis::Snapshot& snapshot);

 private:
  void ReadTopologyOnce();
  void Tell(const std::vector<diagnosis::Finding>& findings, std::int64_t now_ns);
  void WriteEvent(const diagnosis::Finding& finding);

  const Context& context_;
  diagnosis::SlowContext context_of_job_;
  bool topology_read_ = false;
  std::int64_t next_ns_ = 0;
  std::int64_t told_ns_ = 0;
  std::string seen_, told_;  // what the last look found, and what was said: kind and culprits; empty: nothing
  bool said_no_events_ = false;
};

}  // namespace ncclwatch::watch
