// The checks of `ncclwatch doctor`, a row each, in the order in which they are told.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "analyzer/doctor/checks/machine.h"
#include "analyzer/doctor/checks/result.h"

namespace ncclwatch::doctor {

// Before a first run, before a run on more machines than ever, before a run that takes days.
enum Phase : unsigned { kFirstRun = 1, kScaleUp = 2, kLongRun = 4, kAnyPhase = 7 };

struct Check {
  std::string_view id;
  std::string_view what;  // that it looks at, for people
  unsigned phases = kAnyPhase;
  Result (*look)(const Machine& machine) = nullptr;
  bool active = false;  // it loads the machine, and runs with --active alone
};

std::span<const Check> GpuChecks();
std::span<const Check> LibraryChecks();
std::span<const Check> VariableChecks();
std::span<const Check> NetworkChecks();
std::span<const Check> LimitChecks();
std::span<const Check> StorageChecks();
std::span<const Check> MemoryChecks();
std::span<const Check> ProcessorChecks();
std::span<const Check> KernelChecks();
std::span<const Check> ManualChecks();
std::span<const Check> ActiveChecks();
std::vector<Check> ChecksOfOneRank();  // all of those

}  // namespace ncclwatch::doctor
