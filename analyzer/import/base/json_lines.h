// What `ncclwatch trace --json` prints, read back: a line for each call. A line with "operation" is one of another
// kind: a kernel, a copy, a phase of a step, as converters from other tools write them.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "analyzer/import/base/trace.h"

namespace ncclwatch::analyzer::import {

class LinesToTraces {
 public:
  // Why it was not taken; empty: it was.
  std::string Add(const nlohmann::json& line);
  // `slots`: what "seq" means.
  void Take(Slots slots, TakeTrace take);

 private:
  struct Process {
    Trace trace;
    absl::flat_hash_map<std::uint64_t, int> group_of;  // by identity
    absl::flat_hash_map<std::string, std::uint64_t> site_of, lane_of;
    bool numbered = true;  // all its calls have a "seq"
  };

  Process& ProcessOf(const nlohmann::json& line);
  int GroupOf(const nlohmann::json& line, Process* process);
  std::string AddCall(const nlohmann::json& line, Process* process);
  std::string AddOperation(const nlohmann::json& line, Process* process);

  std::map<std::tuple<std::string, std::uint32_t, int>, Process> processes_;  // by host, pid and rank
  absl::flat_hash_map<std::uint64_t, int> sizes_;                             // by identity of the group
  absl::flat_hash_map<std::string, std::uint64_t> meetings_;
};

void ReadJsonLines(const std::vector<std::string>& files, TakeTrace take, Imported* imported, FilesRead done);

}  // namespace ncclwatch::analyzer::import
