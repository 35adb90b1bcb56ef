#include "watchdog/rundir/launcher.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>

#include "watchdog/rundir/process.h"
#include "watchdog/rundir/slurm_tasks.h"

namespace ncclwatch::rundir {
namespace {

constexpr std::size_t kReadableBytes = 48;  // of a job's name; with hash and suffixes it stays far below NAME_MAX

struct Family {
  Launcher launcher;
  const char* marker;  // must be set, besides rank and size
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
};
constexpr Family kFamilies[] = {
    {Launcher::kTorchrun, "TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {Launcher::kPlain, "RANK", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {Launcher::kOpenMpi, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {Launcher::kMpich, "PMI_RANK", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    // A batch script has SLURM_PROCID=0 and SLURM_NTASKS too: only a step (srun) has started ranks.
    {Launcher::kSlurm, "SLURM_STEP_ID", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID",
     "SLURM_NTASKS_PER_NODE"},
    {Launcher::kSlurm, "SLURM_STEP_ID", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"},
};

std::optional<std::int32_t> Number(const Lookup& lookup, const char* name) {
  const std::optional<std::string_view> text = lookup(name);
  if (!text) return std::nullopt;
  std::int32_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size() || value < 0) return std::nullopt;
  return value;
}

std::optional<Place> Try(const Family& family, const Lookup& lookup) {
  if (!lookup(family.marker)) return std::nullopt;
  const std::optional<std::int32_t> rank = Number(lookup, family.rank), size = Number(lookup, family.size);
  if (!rank || !size || *rank >= *size) return std::nullopt;
  Place place{family.launcher, *rank, *size, Number(lookup, family.local_rank).value_or(-1),
              Number(lookup, family.local_size).value_or(0)};
  // SLURM_NTASKS_PER_NODE is there only if the user asked for it, and is what was asked for.
  if (family.launcher == Launcher::kSlurm) {
    const std::string_view counts = lookup("SLURM_STEP_TASKS_PER_NODE").value_or("");
    const std::optional<std::int32_t> node = Number(lookup, "SLURM_NODEID");
    if (node) place.local_world_size = TasksOfNode(counts, *node).value_or(place.local_world_size);
  }
  return place;
}

// Is the process with this environment part of one rank of such a job, rather than the start of all of them?
bool InsideRank(const Lookup& lookup, const Place& place) {
  for (const Family& family : kFamilies) {
    if ((family.launcher == Launcher::kTorchrun) != (place.launcher == Launcher::kTorchrun)) continue;
    const std::optional<Place> there = Try(family, lookup);
    if (there && there->world_size == place.world_size) return true;
  }
  return false;
}

// The rank is one that srun started: by a script that says RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS, or through
// PMI-2. Slurm knows more of it: the attempt, and how many ranks its node has.
bool IsOfSlurm(const Place& place, const Place& slurm) {
  return slurm.launcher == Launcher::kSlurm && place.rank == slurm.rank && place.world_size == slurm.world_size &&
         (place.launcher == Launcher::kPlain || place.launcher == Launcher::kMpich) &&
         (place.local_world_size == 0 || place.local_world_size == slurm.local_world_size);
}

Lookup InBlock(const std::string& block) {
  return [&block](std::string_view name) { return Find(block, name); };
}

std::uint64_t Hash(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  hash = (hash ^ (hash >> 33)) * 0xff51afd7ed558ccdull;
  return hash ^ (hash >> 33);
}

std::string SafeName(std::string_view name) {
  std::string safe;
  for (char c : name.substr(0, kReadableBytes)) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
    safe += plain && !(safe.empty() && (c == '.' || c == '-')) ? c : '_';
  }
  return safe.empty() ? "job" : safe;
}

std::string HashText(std::string_view text) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::uint64_t hash = Hash(text);
  std::string digits;
  for (int i = 0; i < 12; ++i, hash >>= 4) digits += kDigits[hash & 15];
  return digits;
}

struct Name {
  std::string readable;
  std::string telling;  // what tells this job from others of the same readable name
};

Name NameOf(const Place& place, const Lookup& lookup) {
  const auto text = [&lookup](const char* name) { return std::string(lookup(name).value_or("")); };
  switch (place.launcher) {
    // Not the master's port: a restart of torchrun's workers may choose another one.
    case Launcher::kTorchrun: return {text("TORCHELASTIC_RUN_ID"), ""};
    case Launcher::kSlurm: {
      const std::string id = text("SLURM_JOB_ID") + "." + text("SLURM_STEP_ID");
      return {"slurm-" + id, id + "/" + text("SLURM_RESTART_COUNT")};
    }
    case Launcher::kOpenMpi: {
      std::string id = text("PMIX_NAMESPACE");
      if (id.empty()) id = text("OMPI_MCA_ess_base_jobid");
      return {"openmpi-" + id, id};
    }
    case Launcher::kMpich: return {"mpich-" + text("PMI_JOBID"), text("PMI_JOBID")};
    case Launcher::kPlain:
      // Not the world size: that one rank has another is a fault to be found, not another job.
      return {"job-" + text("MASTER_PORT"),
              fmt::format("{}/{}/{}", text("MASTER_ADDR"), text("MASTER_PORT"), text("SLURM_STEP_ID"))};
    case Launcher::kNone: break;
  }
  const std::string session = std::to_string(getsid(0));
  return {"session-" + session, session};
}

// Does its launcher give each job a name of its own, which ranks in containers of their own share? The run id of
// torchrun is "none" by default, and Hydra may give no number.
bool NamesItsJobs(const Place& place, const Lookup& lookup) {
  switch (place.launcher) {
    case Launcher::kSlurm:
    case Launcher::kOpenMpi: return true;
    case Launcher::kMpich: return !lookup("PMI_JOBID").value_or("").empty();
    case Launcher::kTorchrun:
    case Launcher::kPlain:
    case Launcher::kNone: break;
  }
  return false;
}

// Process 1 of a container, and what was put into one from outside, have no parent there: the container started them.
Instance ContainerOf(const Place& place, const Patience& patience) {
  const Instance instance = InstanceOf(getpid(), place, patience);
  if (instance.pid != 0) return instance;
  const std::optional<ProcessStat> first = StatOf(1);
  return first ? Instance{1, first->start_time} : instance;
}

}  // namespace

Place PlaceFrom(const Lookup& lookup) {
  Place best;
  for (const Family& family : kFamilies) {
    const std::optional<Place> place = Try(family, lookup);
    if (place && place->launcher == Launcher::kTorchrun) return *place;
    // mpirun inside a pod whose environment says RANK=0 WORLD_SIZE=1, or a script started once by mpirun that starts
    // ranks itself: the larger world is the job.
    if (place && (place->world_size > best.world_size || IsOfSlurm(best, *place))) best = *place;
  }
  return best;
}

namespace {

// What fork() leaves alike, and exec changes.
struct Likeness {
  dev_t device = 0;
  ino_t program = 0;
  std::string command;
  bool operator==(const Likeness&) const = default;
};
std::optional<Likeness> LikenessOf(std::int32_t pid) {
  const std::string folder = fmt::format("/proc/{}", pid);
  struct stat program {};
  std::optional<std::string> command = ReadSmall(folder + "/cmdline");
  if (!command || stat((folder + "/exe").c_str(), &program) != 0) return std::nullopt;
  return Likeness{program.st_dev, program.st_ino, std::move(*command)};
}

}  // namespace

Instance InstanceOf(std::int32_t pid, const Place& place, const Patience& patience) {
  Instance instance;
  const auto likeness_of = [&patience](std::int32_t process) {
    return Asked<Likeness>(patience, [process] { return LikenessOf(process); });
  };
  const std::optional<Likeness> own = likeness_of(pid);
  for (int depth = 0; depth < 64; ++depth) {
    const std::optional<ProcessStat> self = StatOf(pid);
    if (!self || self->parent <= 0) break;
    const std::optional<ProcessStat> parent = StatOf(self->parent);
    if (!parent) break;
    pid = self->parent;
    // A program that forks its ranks may be one itself, and says so after its start: its environment does not show it.
    if (own && likeness_of(pid) == own) continue;
    instance = {pid, parent->start_time};
    if (place.launcher == Launcher::kNone) break;
    const std::optional<std::string> block = Asked<std::string>(patience, [pid] { return EnvironmentOf(pid); });
    if (!block || !InsideRank(InBlock(*block), place)) break;
  }
  return instance;
}

Launch FromLauncher(const settings::Settings& settings, settings::Getenv getenv, const Patience& patience) {
  const Lookup lookup = [getenv](std::string_view name) -> std::optional<std::string_view> {
    const char* value = getenv(std::string(name).c_str());
    return value ? std::optional<std::string_view>(value) : std::nullopt;
  };
  const Place place = PlaceFrom(lookup);
  Launch launch;
  launch.rank = place.rank;
  launch.world_size = place.world_size;
  launch.local_rank = place.local_rank;
  launch.local_world_size = place.local_world_size;
  launch.master_address = lookup("MASTER_ADDR").value_or("");
  launch.master_port = Number(lookup, "MASTER_PORT").value_or(0);
  if (place.launcher == Launcher::kTorchrun)
    launch.attempt = static_cast<std::uint32_t>(Number(lookup, "TORCHELASTIC_RESTART_COUNT").value_or(0));
  if (place.launcher == Launcher::kSlurm)
    launch.attempt = static_cast<std::uint32_t>(Number(lookup, "SLURM_RESTART_COUNT").value_or(0));

  const Name name = settings.job.empty() ? NameOf(place, lookup) : Name{settings.job, settings.job};
  const bool named = NamesItsJobs(place, lookup);
  const Instance instance = named ? InstanceOf(getpid(), place, patience) : ContainerOf(place, patience);
  std::string telling = fmt::format("{}\n{}\n{}\n{}", name.telling, BootId(), instance.pid, instance.start_time);
  // Containers with a common /dev/shm have process 1, and session 1, each: equal pids there are not one process.
  if (!named) telling += fmt::format("\n{}", PidNamespace());
  launch.job = SafeName(name.readable) + "-" + HashText(telling);
  launch.own_launcher = place.launcher != Launcher::kPlain && place.launcher != Launcher::kNone;
  return launch;
}

}  // namespace ncclwatch::rundir
