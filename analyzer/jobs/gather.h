// Evidence of a live job, looked for from outside it: for where no leader lives to do so.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/reader/stacks.h"

namespace ncclwatch::analyzer {

// A process of the job that holds its black box.
struct LivingProcess {
  std::int32_t rank = -1;
  std::uint32_t pid = 0;
  std::string host;
  bool here = false;  // of this machine and pid namespace
  std::optional<reader::ProcessStacks> stacks;
  std::string file;  // that they are in
};
// With the stacks that were read since then (CLOCK_MONOTONIC).
std::vector<LivingProcess> LivingProcesses(const std::string& directory, std::int64_t since_ns);

// States and stacks of all living processes that can be seen from here, into evidence/ and stacks/ of the run
// directory. Empty, or in one line what is missing.
std::string GatherEvidence(const std::string& directory);

}  // namespace ncclwatch::analyzer
