#include "analyzer/stacks/process/cgroup.h"

#include <absl/strings/str_split.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <vector>

#include "watchdog/rundir/process.h"

namespace ncclwatch::stacks {
namespace {

// Where version 1 has no limit it says the largest multiple of a page.
constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 62;

std::string Text(const std::string& path) { return rundir::ReadSmall(path, 4096).value_or(""); }

std::optional<std::uint64_t> Number(const std::string& path) {
  const std::string text = Text(path);
  char* end = nullptr;
  const std::uint64_t value = std::strtoull(text.c_str(), &end, 10);  // "max" is none
  return end == text.c_str() || value >= kNoLimit ? std::nullopt : std::optional(value);
}

// "oom_kill 3" among lines of a name and a number.
std::uint64_t Count(const std::string& text, const std::string& name) {
  std::istringstream words(text);
  std::string label;
  for (std::uint64_t value = 0; words >> label >> value;)
    if (label == name) return value;
  return 0;
}

struct Groups {
  std::string unified, memory;  // of version 2; of version 1's memory controller
  bool has_unified = false, has_memory = false;
};

Groups Parse(const std::string& text) {
  Groups groups;
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  for (const std::string& line : lines) {  // "0::/user.slice", "7:cpu,memory:/docker/1"
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() < 3) continue;
    const std::vector<std::string> controllers = absl::StrSplit(parts[1], ',');
    if (parts[1].empty()) {
      groups.unified = parts[2];
      groups.has_unified = true;
    } else if (std::find(controllers.begin(), controllers.end(), "memory") != controllers.end()) {
      groups.memory = parts[2];
      groups.has_memory = true;
    }
  }
  return groups;
}

// The group itself and those around it, outwards.
std::vector<std::string> Outwards(std::string path) {
  std::vector<std::string> all;
  while (!path.empty() && path != "/") {
    all.push_back(path);
    path.resize(path.rfind('/'));
  }
  all.emplace_back("");
  return all;
}

void ReadMemory(const std::string& root, const std::string& path, const char* used, const char* limit,
                GroupState* state) {
  for (const std::string& group : Outwards(path)) {
    const auto bytes = Number(root + group + "/" + limit);
    const auto in_use = Number(root + group + "/" + used);
    if (!state->used_bytes && in_use) {
      state->used_bytes = in_use;
      state->memory_group = group.empty() ? "/" : group;
    }
    if (!bytes || !in_use || (state->limit_bytes && *state->limit_bytes <= *bytes)) continue;
    state->limit_bytes = bytes;
    state->used_bytes = in_use;
    state->memory_group = group.empty() ? "/" : group;
  }
}

std::optional<Pressure> ReadPressure(const std::string& folder, const char* what) {
  auto pressure = ParsePressure(Text(folder + "/" + what + ".pressure"));
  return pressure ? pressure : ParsePressure(Text(std::string("/proc/pressure/") + what));
}

}  // namespace

std::optional<Pressure> ParsePressure(const std::string& text) {
  Pressure pressure;
  const auto ten_seconds = [&text](const char* label, double* value) {
    const std::size_t at = text.find(std::string(label) + " avg10=");
    if (at == std::string::npos) return false;
    *value = std::strtod(text.c_str() + text.find('=', at) + 1, nullptr);
    return true;
  };
  if (!ten_seconds("some", &pressure.some)) return std::nullopt;
  ten_seconds("full", &pressure.full);
  return pressure;
}

GroupState GroupsOf(const std::string& text, const std::string& root) {
  GroupState state;
  const Groups groups = Parse(text);
  std::string own;
  if (groups.has_unified) {
    const std::string base = Text(root + "/cgroup.controllers").empty() ? root + "/unified" : root;
    own = base + (groups.unified == "/" ? "" : groups.unified);
    ReadMemory(base, groups.unified, "memory.current", "memory.max", &state);
    state.killed = Count(Text(own + "/memory.events"), "oom_kill");
    state.frozen = Count(Text(own + "/cgroup.events"), "frozen") != 0;
  }
  if (groups.has_memory) {
    const std::string base = root + "/memory";
    ReadMemory(base, groups.memory, "memory.usage_in_bytes", "memory.limit_in_bytes", &state);
    state.killed += Count(Text(base + (groups.memory == "/" ? "" : groups.memory) + "/memory.oom_control"), "oom_kill");
  }
  state.memory = ReadPressure(own, "memory");
  state.processor = ReadPressure(own, "cpu");
  state.disk = ReadPressure(own, "io");
  return state;
}

GroupState ReadGroups(int pid, const std::string& root) {
  return GroupsOf(Text(fmt::format("/proc/{}/cgroup", pid)), root);
}

}  // namespace ncclwatch::stacks
