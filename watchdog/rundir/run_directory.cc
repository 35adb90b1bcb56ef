#include "watchdog/rundir/run_directory.h"

#include <dirent.h>
#include <fmt/format.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <exception>

#include "watchdog/descriptors/high.h"
#include "watchdog/rundir/place.h"
#include "watchdog/rundir/room.h"

namespace ncclwatch::rundir {
namespace {

constexpr int kMostRuns = 1000;  // jobs that may share one NCCLWATCH_DIR before it is refused

struct Entered {
  std::string path;
  std::string top;
  std::string refusal;  // empty: entered
  std::string shrunk;   // not empty: why the box is not of the first size
  std::size_t size = 0;
  bool first = false;  // this process took it for the job
  bool taken = false;  // refused because it is another job's
  std::shared_ptr<const Hold> hold;
};

// Made or entered, and held: what another process removes in between is made again.
std::string EnterAndHold(const std::string& path, bool* made, std::shared_ptr<const Hold>* hold) {
  constexpr int kTries = 20;
  for (int i = 0; i < kTries; ++i) {
    const std::string refusal = Enter(path, made);
    if (!refusal.empty() && i + 1 == kTries) return refusal;
    if (!refusal.empty() && access(path.c_str(), F_OK) == 0) return refusal;
    bool removing = false;
    if (refusal.empty()) *hold = Hold::Of(path, &removing);
    if (*hold) return "";
    if (removing) break;
  }
  return path + ": is being removed";
}

// Takes one directory for the job or joins the ranks that have. Whoever comes first makes sure that all ranks of the
// node will find room, so that they do not scatter.
Entered EnterOne(const std::string& path, const std::string& job, const Need& need) {
  bool made = false;
  Entered entered;
  entered.path = entered.top = path;
  entered.refusal = EnterAndHold(path, &made, &entered.hold);
  if (!entered.refusal.empty()) return entered;
  const auto look = [&] {
    if (need.sizes.empty()) return;
    RoomThere room = RoomFor(path, need, JobOf(path) == job);
    entered.refusal = std::move(room.refusal);
    entered.shrunk = std::move(room.shrunk);
    entered.size = room.size;
  };
  if (JobOf(path) != job) {
    look();
    if (!entered.refusal.empty() && JobOf(path) != job) {
      if (made) rmdir(path.c_str());
      return entered;
    }
    entered.refusal.clear();
  }
  const Claim claim = ClaimFor(path, job);
  entered.first = claim == Claim::kMade;
  entered.taken = claim == Claim::kTaken;
  if (entered.taken) entered.refusal = path + " holds another job's black boxes";
  if (claim == Claim::kFailed) entered.refusal = path + ": cannot write";
  if (entered.refusal.empty() && !entered.first) look();
  return entered;
}

// The newest of a job's runs there: that there is one says that those before it are over, to all of its ranks.
int NewestRun(const std::string& place, const std::string& job) {
  int newest = 0;
  DIR* directory = descriptors::OpenDirectory(place);
  if (!directory) return newest;
  while (const dirent* entry = readdir(directory)) {
    const std::string name = entry->d_name;
    if (!name.starts_with("run-")) continue;
    const int run = std::atoi(name.c_str() + 4);
    if (run > newest && run < kMostRuns && JobOf(place + "/" + name) == job) newest = run;
  }
  closedir(directory);
  return newest;
}

Entered EnterPlace(const std::string& place, const Launch& launch, const std::vector<std::uint64_t>& sizes) {
  const Need need{launch.local_world_size > 0 ? static_cast<std::uint64_t>(launch.local_world_size) : 1, sizes};
  const bool later = launch.attempt > 0;
  Entered entered;
  for (int run = launch.own_launcher ? 0 : NewestRun(place, launch.job); run < kMostRuns; ++run) {
    const std::string name = fmt::format("run-{}", run);
    const std::string top = run == 0 ? place : place + "/" + name;
    entered = EnterOne(top, launch.job, later ? Need{} : need);
    if (entered.taken) continue;
    const bool may_be_over = !later && !launch.own_launcher;
    if (may_be_over && OfEarlierJob(LookAt(top, launch.rank))) continue;
    if (!entered.refusal.empty()) return entered;
    if (run > 0 && entered.first) PointLatest(place, name);
    if (later) {
      const std::shared_ptr<const Hold> hold = entered.hold;  // of the whole job
      const std::string attempt = fmt::format("attempt-{}", launch.attempt);
      entered = EnterOne(top + "/" + attempt, launch.job, need);
      entered.top = top;
      entered.hold = hold;
      if (entered.first) PointLatest(top, attempt);
      return entered;
    }
    return entered;
  }
  entered.refusal = place + ": too many runs in it";
  return entered;
}

// Without a slash at the end, which would make open() follow a link whatever the flags say.
std::string Absolute(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  if (path.front() == '/') return path;
  char here[PATH_MAX];
  return getcwd(here, sizeof(here)) ? std::string(here) + "/" + path : path;
}

std::string DefaultBase(const std::string& root) { return fmt::format("{}/ncclwatch-{}", root, geteuid()); }

void Append(std::string* reasons, const std::string& reason) {
  if (!reasons->empty()) *reasons += "; ";
  *reasons += reason;
}

Made MadeOf(const Entered& entered, bool by_name) {
  Made made;
  made.path = entered.path;
  made.top = entered.top;
  made.size = entered.size;
  made.by_name = by_name;
  if (entered.first) made.remark = entered.shrunk;
  made.hold = entered.hold;
  return made;
}

std::variant<Made, Refused> MakeThrowing(const settings::Settings& settings, const Launch& launch,
                                         const std::vector<std::uint64_t>& sizes) {
  std::string reasons;
  if (!settings.directory.empty()) {
    const std::string directory = Absolute(settings.directory);
    const Entered entered = EnterPlace(directory, launch, sizes);
    if (entered.refusal.empty()) {
      Made made = MadeOf(entered, true);
      if (entered.first && entered.path.starts_with(directory + "/run-"))
        made.remark = fmt::format("{} holds another job's black boxes; using {}", directory, entered.path);
      return made;
    }
    Append(&reasons, entered.refusal);
  }
  for (const std::string& base : DefaultBases()) {
    bool made = false;
    const std::string refusal = Enter(base, &made);
    if (!refusal.empty()) {
      Append(&reasons, refusal);
      continue;
    }
    const Entered entered = EnterPlace(base + "/" + launch.job, launch, sizes);
    if (!entered.refusal.empty()) {
      Append(&reasons, entered.refusal);
      continue;
    }
    if (entered.first) PointLatest(base, launch.job);
    Made here = MadeOf(entered, false);
    if (entered.first && !reasons.empty()) here.remark = fmt::format("{}; using {}", reasons, entered.path);
    return here;
  }
  return Refused{reasons};
}

}  // namespace

std::vector<std::string> DefaultBases() {
  std::vector<std::string> bases = {DefaultBase("/dev/shm")};
  const char* temporary = std::getenv("TMPDIR");
  if (temporary && *temporary == '/') bases.push_back(DefaultBase(temporary));
  if (bases.back() != DefaultBase("/tmp")) bases.push_back(DefaultBase("/tmp"));
  return bases;
}

std::variant<Made, Refused> Make(const settings::Settings& settings, const Launch& launch,
                                 const std::vector<std::uint64_t>& sizes) {
  try {
    return MakeThrowing(settings, launch, sizes);
  } catch (const std::exception& error) {
    return Refused{error.what()};
  }
}

}  // namespace ncclwatch::rundir
