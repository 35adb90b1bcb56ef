#include "watchdog/rundir/run_directory.h"

#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <exception>

#include "watchdog/rundir/place.h"

namespace ncclwatch::rundir {
namespace {

constexpr int kMostRuns = 1000;  // jobs that may share one NCCLWATCH_DIR before it is refused

struct Entered {
  std::string path;
  std::string refusal;  // empty: entered
  bool first = false;   // this process took it for the job
  bool taken = false;   // refused because it is another job's
};

// Takes one directory for the job or joins the ranks that have. Whoever comes first makes sure that all ranks of the
// node will find room, so that they do not scatter; the others look after their own box only, since the boxes of those
// before them have already used up part of it.
Entered EnterOne(const std::string& path, const std::string& job, std::uint64_t all_bytes, std::uint64_t own_bytes) {
  bool made = false;
  Entered entered{path, Enter(path, &made), false, false};
  if (!entered.refusal.empty()) return entered;
  if (JobOf(path) != job) {
    entered.refusal = Room(path, all_bytes);
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
  if (entered.refusal.empty()) entered.refusal = Room(path, own_bytes);
  return entered;
}

Entered EnterPlace(const std::string& place, const Launch& launch, std::uint64_t bytes) {
  const std::uint64_t ranks = launch.local_world_size > 0 ? static_cast<std::uint64_t>(launch.local_world_size) : 1;
  const bool later = launch.attempt > 0;
  Entered entered;
  for (int run = 0; run < kMostRuns; ++run) {
    const std::string name = "run-" + std::to_string(run);
    const std::string top = run == 0 ? place : place + "/" + name;
    entered = EnterOne(top, launch.job, later ? 0 : ranks * bytes, later ? 0 : bytes);
    if (entered.taken) continue;
    if (!entered.refusal.empty()) return entered;
    if (run > 0 && entered.first) PointLatest(place, name);
    if (later) {
      const std::string attempt = "attempt-" + std::to_string(launch.attempt);
      entered = EnterOne(top + "/" + attempt, launch.job, ranks * bytes, bytes);
      if (entered.first) PointLatest(top, attempt);
      return entered;
    }
    if (launch.own_launcher || !OfEarlierJob(LookAt(top, launch.rank))) return entered;
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

std::string DefaultBase(const std::string& root) { return root + "/ncclwatch-" + std::to_string(geteuid()); }

void Append(std::string* reasons, const std::string& reason) {
  if (!reasons->empty()) *reasons += "; ";
  *reasons += reason;
}

std::variant<Made, Refused> MakeThrowing(const settings::Settings& settings, const Launch& launch,
                                         std::uint64_t bytes) {
  std::string reasons;
  if (!settings.directory.empty()) {
    const std::string directory = Absolute(settings.directory);
    const Entered entered = EnterPlace(directory, launch, bytes);
    if (entered.refusal.empty()) {
      const bool say = entered.first && entered.path.starts_with(directory + "/run-");
      return Made{entered.path, say ? directory + " holds another job's black boxes; using " + entered.path : ""};
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
    const Entered entered = EnterPlace(base + "/" + launch.job, launch, bytes);
    if (!entered.refusal.empty()) {
      Append(&reasons, entered.refusal);
      continue;
    }
    if (entered.first) PointLatest(base, launch.job);
    return Made{entered.path, entered.first && !reasons.empty() ? reasons + "; using " + entered.path : ""};
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

std::variant<Made, Refused> Make(const settings::Settings& settings, const Launch& launch, std::uint64_t bytes) {
  try {
    return MakeThrowing(settings, launch, bytes);
  } catch (const std::exception& error) {
    return Refused{error.what()};
  }
}

}  // namespace ncclwatch::rundir
