#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "watchdog/descriptors/high.h"
#include "watchdog/rundir/place.h"
#include "watchdog/rundir/run_directory.h"

namespace ncclwatch::rundir {
namespace {

// Names of the directories (not links) in one directory.
std::vector<std::string> Directories(const std::string& path) {
  std::vector<std::string> names;
  DIR* directory = descriptors::OpenDirectory(path);
  if (!directory) return names;
  while (const dirent* entry = readdir(directory)) {
    const std::string name = entry->d_name;
    struct stat info = {};
    if (name[0] != '.' && lstat((path + "/" + name).c_str(), &info) == 0 && S_ISDIR(info.st_mode))
      names.push_back(name);
  }
  closedir(directory);
  return names;
}

void AddLeaf(const std::string& path, std::uint32_t attempt, std::vector<Listed>* all) {
  const Boxes boxes = LookAt(path, -1);
  const std::string job = JobOf(path);
  if (boxes.all == 0 && job.empty()) return;
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) return;
  const std::int64_t modified = info.st_mtim.tv_sec * 1'000'000'000LL + info.st_mtim.tv_nsec;
  all->push_back({path, job, attempt, boxes.all, boxes.alive, std::max(modified, boxes.last_realtime_ns)});
}

void AddPlace(const std::string& path, int depth, std::vector<Listed>* all) {
  AddLeaf(path, 0, all);
  for (const std::string& name : Directories(path)) {
    if (name.starts_with("attempt-"))
      AddLeaf(path + "/" + name, static_cast<std::uint32_t>(std::strtoul(name.c_str() + 8, nullptr, 10)), all);
    if (name.starts_with("run-") && depth == 0) AddPlace(path + "/" + name, 1, all);
  }
}

}  // namespace

std::vector<Listed> List(const settings::Settings& settings) {
  std::vector<Listed> all;
  if (!settings.directory.empty()) AddPlace(settings.directory, 0, &all);
  for (const std::string& base : DefaultBases())
    for (const std::string& name : Directories(base)) AddPlace(base + "/" + name, 0, &all);
  std::sort(all.begin(), all.end(), [](const Listed& a, const Listed& b) {
    return a.modified_ns != b.modified_ns ? a.modified_ns > b.modified_ns : a.path > b.path;
  });
  std::set<std::string> seen;
  all.erase(
      std::remove_if(all.begin(), all.end(), [&seen](const Listed& one) { return !seen.insert(one.path).second; }),
      all.end());
  return all;
}

}  // namespace ncclwatch::rundir
