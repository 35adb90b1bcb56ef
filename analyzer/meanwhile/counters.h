// What the kernel counts of one thread and of its control group: how long it ran, and how long it was kept from it;
// what it wrote.
#pragma once

#include <cstdint>
#include <string>

#include "core/reader/beside/meanwhile.h"

namespace ncclwatch::meanwhile {

struct Counters {
  std::int64_t run_ns = 0, queued_ns = 0;
  std::int64_t throttled_ns = 0;
  std::uint64_t major_faults = 0;
  std::uint64_t written = 0;  // bytes that go to a disk, now or later
};
Counters CountersOf(int pid, int tid);

// The path of its cpu.stat, empty if there is none; `root`: of /sys/fs/cgroup, for tests.
std::string CpuStatPath(const std::string& cgroup_text, const std::string& root = "/sys/fs/cgroup");
// "throttled_usec 12" of version 2, "throttled_time 12000" of version 1.
std::int64_t ThrottledNs(const std::string& cpu_stat);

// Adds what has been counted between the two.
void AddBetween(const Counters& before, const Counters& after, reader::Meanwhile* to);

}  // namespace ncclwatch::meanwhile
