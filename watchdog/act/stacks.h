// The separate program that reads the stacks of processes from outside, `ncclwatch stacks`: finding it and running it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "watchdog/descriptors/directory.h"

namespace ncclwatch::act {

// The command of this installation: NCCLWATCH_COMMAND in `environment`, else ../bin/ncclwatch beside the file that this
// code was loaded from. Takes the dynamic linker's lock: for a thread of the application. Need not exist.
std::string FindCommand(const std::vector<std::string>& environment);

struct StackTarget {
  std::int32_t pid = 0;
  std::uint64_t start_time = 0;  // which process that pid was: no other is looked at
  std::uint32_t thread = 0;      // that has to do with NCCL: what stands in a verdict is its stack; 0 unknown
};

struct StacksRequest {
  std::string command;               // of FindCommand
  descriptors::Directory directory;  // the run directory: files go to <directory>/stacks
  std::vector<StackTarget> targets;
  std::vector<std::string> environment;
};

// Threads of ours that exist only while stacks are taken, and what they start, are called so: they are left out of
// them.
inline constexpr char kStacksThread[] = "ncclwatch-stack";

// Runs it, in a thread of ours, for at most kStacksDeadline_ms. Empty, or in one line why stacks are missing.
inline constexpr std::int64_t kStacksDeadline_ms = 3000;
std::string TakeStacks(const StacksRequest& request);

// Has it look at processes while the others wait for them (reader/beside/meanwhile.h), for at most limit_ms. In a
// thread of ours. Empty, or in one line why not.
struct LateTarget {
  std::int32_t pid = 0;
  std::uint64_t start_time = 0;  // which process that pid was
  std::int64_t late_ns = 0;      // by which it comes late
};
struct MeanwhileRequest {
  std::string command;               // of FindCommand
  descriptors::Directory directory;  // the run directory, whose boxes tell who waits; the file goes there too
  std::vector<LateTarget> targets;
  std::int64_t limit_ms = 0;
  std::vector<std::string> environment;
};
std::string SampleMeanwhile(const MeanwhileRequest& request);

// Has it look at the error counters of this machine (reader/beside/machine.h): `ncclwatch doctor --counters`. In a
// thread of ours, for at most kMachineDeadline_ms: a driver may hang. Empty, or in one line why not.
inline constexpr std::int64_t kMachineDeadline_ms = 30'000;
struct MachineRequest {
  std::string command;               // of FindCommand
  descriptors::Directory directory;  // the run directory
  std::string file;                  // in it
  std::vector<std::string> environment;
};
std::string LookAtMachine(const MachineRequest& request);

// What processes have left to be unwound (format/sample.h): the file in the run directory, of a process that looked at
// itself.
std::string SampleOf(std::int32_t pid);
// Unwinds such files into files of stacks/, and removes them: for at most kSamplesDeadline_ms. Empty, or in one line
// why not.
inline constexpr std::int64_t kSamplesDeadline_ms = 1000;
std::string UnwindSamples(const StacksRequest& request);

// Has it write the names that a framework gives to communicators into boxes of living processes, which it reads from
// outside. In a thread of ours, for at most kNamesDeadline_ms. Empty, or in one line why not.
inline constexpr std::int64_t kNamesDeadline_ms = 3000;
std::string NameCommunicators(const std::string& command, const descriptors::Directory& directory,
                              const std::vector<std::string>& boxes, const std::vector<std::string>& environment);

// Unwinds what processes that died of a signal have left behind their boxes, and completes their last words with it.
// In a thread of ours, for at most kCrashDeadline_ms. Empty, or in one line why not.
inline constexpr std::int64_t kCrashDeadline_ms = 2000;
std::string UnwindCrashes(const std::string& command, const descriptors::Directory& directory,
                          const std::vector<std::string>& boxes, const std::vector<std::string>& environment);

}  // namespace ncclwatch::act
