#include "analyzer/run/setting_up.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <utility>

#include "analyzer/jobs/remove.h"
#include "watchdog/rundir/place.h"
#include "watchdog/rundir/run_directory.h"

namespace ncclwatch::analyzer {
namespace {

namespace fs = std::filesystem;

constexpr char kLibrary[] = "libncclwatch.so";
constexpr const char* kLinks[] = {kLibrary, "libncclwatch-openmpi.so", "libncclwatch-mpich.so"};
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
  char stamp[32];
  std::strftime(stamp, sizeof stamp, "%m%d-%H%M%S", &local);
  return (name.empty() ? "job" : name) + "-" + stamp + "-" + std::to_string(getpid());
}

}  // namespace

std::variant<std::string, NotPossible> FindLibrary() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (error) return NotPossible{"cannot tell where ncclwatch itself lies: " + error.message()};
  const fs::path library = self.parent_path().parent_path() / "lib" / kLibrary;
  if (access(library.c_str(), R_OK) != 0)
    return NotPossible{library.string() + ": " + std::strerror(errno) +
                       ": the library to preload is expected there, in ../lib beside ncclwatch; build or install it"};
  return library.string();
}

bool PreloadsOurs(const std::string& before) {
  for (std::size_t begin = 0; begin < before.size();) {
    const std::size_t end = std::min(before.find_first_of(kPreloadBreaks, begin), before.size());
    const std::string name = fs::path(before.substr(begin, end - begin)).filename();
    if (name.starts_with("libncclwatch") && name.find(".so") != std::string::npos) return true;
    begin = end + 1;
  }
  return false;
}

std::string Preload(const std::string& library, const std::string& before) {
  if (PreloadsOurs(before)) return before;
  return before.empty() ? library : library + ":" + before;
}

std::variant<RunPlace, NotPossible> RunPlace::Make(const settings::Settings& settings, const std::string& command) {
  if (!settings.directory.empty()) {
    std::error_code error;
    const fs::path path = fs::absolute(settings.directory, error);  // the job may change its directory
    RunPlace place(error ? settings.directory : path.string(), -1);
    // Before the job does, which says what is wrong with it: what is not there cannot be watched.
    static_cast<void>(rundir::Enter(place.path_, &place.made_));
    return place;
  }
  std::string reasons;
  for (const std::string& base : rundir::DefaultBases()) {
    bool made = false;
    std::string reason = rundir::Enter(base, &made);
    const std::string name = PlaceName(command), path = base + "/" + name;
    if (reason.empty()) reason = rundir::Enter(path, &made);
    const int held = reason.empty() ? HoldPlace(path) : -1;
    if (held >= 0) {
      rundir::PointLatest(base, name);
      return RunPlace(path, held);
    }
    reasons += (reasons.empty() ? "" : "; ") + (reason.empty() ? path + ": cannot be locked" : reason);
  }
  return NotPossible{"no run directory can be made: " + reasons};
}

std::variant<std::string, NotPossible> RunPlace::NameFor(const std::string& library) const {
  if (library.find_first_of(kPreloadBreaks) == std::string::npos) return library;
  const std::string link = path_ + "/" + fs::path(library).filename().string();
  bool made = false;
  if (link.find_first_of(kPreloadBreaks) != std::string::npos)
    return NotPossible{"LD_PRELOAD cannot hold a path with spaces or colons: " + library};
  if (const std::string reason = rundir::Enter(path_, &made); !reason.empty()) return NotPossible{reason};
  if (symlink(library.c_str(), link.c_str()) != 0 && errno != EEXIST)
    return NotPossible{link + ": " + std::strerror(errno)};
  return link;
}

void RunPlace::Remove() {
  if (made_) rmdir(path_.c_str());  // where nothing came of it
  if (held_ < 0) return;
  close(std::exchange(held_, -1));
  // Without a `job` in it no process ever took it: then it is empty, or holds our link.
  if (rundir::JobOf(path_).empty()) {
    for (const char* name : kLinks) unlink((path_ + "/" + name).c_str());
    rmdir(path_.c_str());
    return;
  }
  RemovalWish wish;
  wish.empty_too = true;
  RemovePlace(path_, wish);
}

RunPlace::~RunPlace() {
  if (held_ >= 0) close(held_);
}

}  // namespace ncclwatch::analyzer
