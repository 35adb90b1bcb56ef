#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "watchdog/descriptors/directory.h"
#include "watchdog/rundir/place.h"
#include "watchdog/rundir/run_directory.h"

namespace ncclwatch::rundir {
namespace {

using descriptors::Directory;

// Names of the directories (not links) in one directory.
std::vector<std::string> Directories(const Directory& directory) {
  std::vector<std::string> names;
  DIR* entries = directory.List();
  if (!entries) return names;
  while (const dirent* entry = readdir(entries)) {
    const std::string name = entry->d_name;
    struct stat info = {};
    if (name[0] != '.' && directory.Stat(name, &info) && S_ISDIR(info.st_mode)) names.push_back(name);
  }
  closedir(entries);
  return names;
}

// Whoever is first to make /dev/shm/ncclwatch-<uid> is not always that user: only what is ours alone is looked at, each
// base and each run.
class Search {
 public:
  explicit Search(std::vector<std::string>* refused) : refused_(refused) {}

  void AddBase(const std::string& path) {
    const Directory base = Open(path);
    for (const std::string& name : Directories(base)) AddPlace(base.PathOf(name), 0);
  }

  void AddPlace(const std::string& path, int depth) {
    const Directory place = Open(path);
    if (!place) return;
    AddLeaf(place, 0);
    for (const std::string& name : Directories(place)) {
      if (name.starts_with("attempt-"))
        AddLeaf(Open(place.PathOf(name)), static_cast<std::uint32_t>(std::strtoul(name.c_str() + 8, nullptr, 10)));
      if (name.starts_with("run-") && depth == 0) AddPlace(place.PathOf(name), 1);
    }
  }

  std::vector<Listed> all;

 private:
  Directory Open(const std::string& path) {
    Directory directory = Directory::Own(path);
    struct stat info = {};
    if (!directory && refused_ && lstat(path.c_str(), &info) == 0) refused_->push_back(directory.reason());
    return directory;
  }

  void AddLeaf(const Directory& directory, std::uint32_t attempt) {
    const Boxes boxes = LookAt(directory, -1);
    const std::string job = JobOf(directory);
    struct stat info = {};
    if ((boxes.all == 0 && job.empty()) || !directory.Stat(".", &info)) return;
    const std::int64_t modified = info.st_mtim.tv_sec * 1'000'000'000LL + info.st_mtim.tv_nsec;
    all.push_back({directory.path(), job, attempt, boxes.all, boxes.alive, std::max(modified, boxes.last_realtime_ns)});
  }

  std::vector<std::string>* refused_;
};

}  // namespace

std::vector<Listed> List(const settings::Settings& settings, std::vector<std::string>* refused) {
  Search search(refused);
  if (!settings.directory.empty()) search.AddPlace(settings.directory, 0);
  for (const std::string& base : DefaultBases()) search.AddBase(base);
  std::vector<Listed>& all = search.all;
  std::sort(all.begin(), all.end(), [](const Listed& a, const Listed& b) {
    return a.modified_ns != b.modified_ns ? a.modified_ns > b.modified_ns : a.path > b.path;
  });
  std::set<std::string> seen;
  all.erase(
      std::remove_if(all.begin(), all.end(), [&seen](const Listed& one) { return !seen.insert(one.path).second; }),
      all.end());
  return std::move(all);
}

}  // namespace ncclwatch::rundir
