#include "analyzer/run/setting_up.h"

#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <utility>
#include <vector>

#include "analyzer/jobs/remove.h"
#include "analyzer/run/own_files.h"
#include "watchdog/rundir/place.h"
#include "watchdog/rundir/run_directory.h"

namespace ncclwatch::analyzer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLinks[] = {"libncclwatch.so", "libncclwatch-openmpi.so", "libncclwatch-mpich.so"};
constexpr char kCollectorFile[] = "collector";
constexpr char kPreloadBreaks[] = " \t\n:";  // ld.so(8): LD_PRELOAD is divided at spaces and colons

// "train.py-1120-142501-4711": readable, and of this run alone.
std::string PlaceName(const std::string& command) {
  std::string name = fs::path(command).filename().string().substr(0, 40);
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '_' && c != '-') c = '_';
  while (!name.empty() && (name[0] == '.' || name[0] == '-')) name.erase(0, 1);
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  return fmt::format("{}-{:02}{:02}-{:02}{:02}{:02}-{}", name.empty() ? "job" : name, local.tm_mon + 1, local.tm_mday,
                     local.tm_hour, local.tm_min, local.tm_sec, getpid());
}

}  // namespace

absl::StatusOr<std::string> FindLibrary() {
  const auto found = FindOwnFile({"lib/ncclwatch/libncclwatch.so", "lib/libncclwatch.so"});
  if (found.ok() || !absl::IsNotFound(found.status())) return found;
  return absl::NotFoundError(fmt::format("{}: the library to preload is expected there; build or install it",
                                         std::string(found.status().message())));
}

bool PreloadsOurs(const std::string& before) {
  const std::vector<std::string> libraries = absl::StrSplit(before, absl::ByAnyChar(kPreloadBreaks));
  return std::any_of(libraries.begin(), libraries.end(), [](const std::string& library) {
    const std::string name = fs::path(library).filename();
    return name.starts_with("libncclwatch") && name.find(".so") != std::string::npos;
  });
}

std::string Preload(const std::string& library, const std::string& before) {
  if (PreloadsOurs(before)) return before;
  return before.empty() ? library : library + ":" + before;
}

absl::StatusOr<RunPlace> RunPlace::Make(const settings::Settings& settings, const std::string& command) {
  if (!settings.directory.empty()) {
    std::error_code error;
    const fs::path path = fs::absolute(settings.directory, error);  // the job may change its directory
    RunPlace place(error ? settings.directory : path.string(), Descriptor());
    // Before the job does, which says what is wrong with it: what is not there cannot be watched.
    static_cast<void>(rundir::Enter(place.path_, &place.made_));
    return place;
  }
  std::vector<std::string> reasons;
  for (const std::string& base : rundir::DefaultBases()) {
    bool made = false;
    std::string reason = rundir::Enter(base, &made);
    const std::string name = PlaceName(command), path = base + "/" + name;
    if (reason.empty()) reason = rundir::Enter(path, &made);
    Descriptor held = reason.empty() ? HoldPlace(path) : Descriptor();
    if (held) {
      rundir::PointLatest(base, name);
      return RunPlace(path, std::move(held));
    }
    reasons.push_back(reason.empty() ? path + ": cannot be locked" : reason);
  }
  return absl::UnavailableError("no run directory can be made: " + absl::StrJoin(reasons, "; "));
}

absl::StatusOr<std::string> RunPlace::NameFor(const std::string& library) const {
  if (library.find_first_of(kPreloadBreaks) == std::string::npos) return library;
  const std::string link = path_ + "/" + fs::path(library).filename().string();
  bool made = false;
  if (link.find_first_of(kPreloadBreaks) != std::string::npos)
    return absl::InvalidArgumentError("LD_PRELOAD cannot hold a path with spaces or colons: " + library);
  if (const std::string reason = rundir::Enter(path_, &made); !reason.empty()) return absl::UnavailableError(reason);
  if (symlink(library.c_str(), link.c_str()) != 0 && errno != EEXIST) return absl::ErrnoToStatus(errno, link);
  return link;
}

void RunPlace::Remove() {
  if (made_) rmdir(path_.c_str());  // where nothing came of it
  if (!held_) return;
  held_ = Descriptor();
  // Without a `job` in it no process ever took it: then it is empty, or holds our link and the collector's lock.
  if (rundir::JobOf(path_).empty()) {
    for (const char* name : kLinks) unlink((path_ + "/" + name).c_str());
    unlink((path_ + "/" + kCollectorFile).c_str());
    rmdir(path_.c_str());
    return;
  }
  RemovalRequest request;
  request.empty_too = true;
  RemovePlace(path_, request);
}

}  // namespace ncclwatch::analyzer
