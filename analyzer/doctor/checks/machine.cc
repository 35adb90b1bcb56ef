#include "analyzer/doctor/checks/machine.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <utility>

#include "analyzer/files/input_file.h"

namespace ncclwatch::doctor {
namespace {

namespace fs = std::filesystem;

constexpr double kNoLimit = 1e18;  // version 1 of cgroups writes a number near 2^63

}  // namespace

Machine::Machine(std::string root, Environment environment)
    : root_(std::move(root)), environment_(std::move(environment)) {
  while (root_.ends_with('/')) root_.pop_back();
  place_ = rundir::PlaceFrom([this](std::string_view name) -> std::optional<std::string_view> {
    const auto found = environment_.find(std::string(name));
    return found == environment_.end() ? std::nullopt : std::optional<std::string_view>(found->second);
  });
}

Machine::Environment Machine::OwnEnvironment() {
  Environment environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != std::string_view::npos) environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

std::optional<std::string> Machine::Read(const std::string& path) const {
  analyzer::InputFile file(Below(path));
  std::stringstream text;
  text << file.rdbuf();
  if (!file) return std::nullopt;
  std::string content = text.str();
  content.erase(content.find_last_not_of(" \t\n") + 1);
  return content;
}

std::optional<double> Machine::Number(const std::string& path) const {
  const std::optional<std::string> text = Read(path);
  if (!text) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(text->c_str(), &end);
  return end == text->c_str() ? std::nullopt : std::optional(value);
}

std::vector<std::string> Machine::List(const std::string& path) const {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(Below(path), error), end; !error && entry != end; entry.increment(error))
    names.push_back(entry->path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

bool Machine::Exists(const std::string& path) const {
  std::error_code error;
  return fs::exists(Below(path), error);
}

std::optional<Space> SpaceOf(const std::string& path) {
  struct statvfs status {};
  if (statvfs(path.c_str(), &status) != 0) return std::nullopt;
  return Space{std::uint64_t{status.f_frsize} * status.f_blocks, std::uint64_t{status.f_frsize} * status.f_bavail};
}

std::optional<std::string> Machine::Variable(const std::string& name) const {
  const auto found = environment_.find(name);
  return found == environment_.end() || found->second.empty() ? std::nullopt : std::optional(found->second);
}

std::optional<std::uint64_t> MemoryInfo(const Machine& machine, std::string_view name) {
  std::istringstream lines(machine.Read("/proc/meminfo").value_or(""));
  std::string word;
  std::uint64_t kilobytes = 0;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    if (words >> word >> kilobytes && word == std::string(name) + ":") return kilobytes * 1024;
  }
  return std::nullopt;
}

std::optional<double> CgroupLimit(const Machine& machine, const std::string& version2, const std::string& version1) {
  std::istringstream groups(machine.Read("/proc/self/cgroup").value_or(""));
  const std::string controller = version1.substr(0, version1.find('/'));
  std::optional<double> least;
  const auto take = [&](const std::string& path) {
    const std::optional<double> value = machine.Number(path);
    if (value && *value >= 0 && *value < kNoLimit) least = std::min(least.value_or(kNoLimit), *value);
  };
  // "0::/user.slice" of version 2, "4:memory:/job" of version 1; a limit of a group above counts too.
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool is_version2 = controllers == ",,";
    if (!is_version2 && controllers.find("," + controller + ",") == std::string::npos) continue;
    for (std::string group = line.substr(second + 1);; group = group.substr(0, group.rfind('/'))) {
      if (is_version2)
        take("/sys/fs/cgroup" + group + "/" + version2);
      else
        take("/sys/fs/cgroup/" + controller + group + version1.substr(version1.find('/')));
      if (group.empty() || group == "/") break;
    }
  }
  return least;
}

}  // namespace ncclwatch::doctor
