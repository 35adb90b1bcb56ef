// The machine as one rank sees it: its files, its environment, and what the user asked about.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "watchdog/rundir/launcher.h"

namespace ncclwatch::doctor {

// Of the model that is to be trained. 0: not said.
struct MemoryBudget {
  double parameters = 0;           // count
  double bytes_of_parameter = 2;   // of a parameter, and of its gradient
  double bytes_of_optimizer = 12;  // for a parameter: Adam in mixed precision keeps two moments and a copy in 32 bits
  double shards = 1;               // ranks that share parameters, gradients and optimizer
  std::uint64_t activations = 0;   // bytes of a rank
};

struct Space {
  std::uint64_t total = 0, free = 0;
};

class Machine {
 public:
  using Environment = std::map<std::string, std::string>;
  Machine(std::string root, Environment environment);
  static Environment OwnEnvironment();

  // Paths are those of the machine, "/proc/meminfo"; they are looked up below the root.
  std::optional<std::string> Read(const std::string& path) const;  // without white space at its end
  std::optional<double> Number(const std::string& path) const;     // that a file begins with
  std::vector<std::string> List(const std::string& path) const;    // names, sorted
  bool Exists(const std::string& path) const;
  std::string Below(const std::string& path) const { return root_ + path; }
  bool is_this_one() const { return root_.empty(); }

  std::optional<std::string> Variable(const std::string& name) const;  // none where it is empty
  const Environment& environment() const { return environment_; }
  const rundir::Place& place() const { return place_; }
  int local_ranks() const { return place_.local_world_size > 0 ? place_.local_world_size : 1; }
  bool is_alone() const { return place_.world_size <= 1; }
  bool on_several_hosts() const { return place_.world_size > local_ranks(); }

  MemoryBudget budget;
  std::string checkpoint;            // folder; empty: none was named
  std::vector<std::string> command;  // the program that is to run; empty: none was named

 private:
  std::string root_;
  Environment environment_;
  rundir::Place place_;
};

// Of the file system of this path; none where there is no such path.
std::optional<Space> SpaceOf(const std::string& path);
// Bytes from "/proc/meminfo", by its names.
std::optional<std::uint64_t> MemoryInfo(const Machine& machine, std::string_view name);
// Below the cgroup of this process, of either version: "memory.max". None where there is no limit.
std::optional<double> CgroupLimit(const Machine& machine, const std::string& version2, const std::string& version1);

}  // namespace ncclwatch::doctor
