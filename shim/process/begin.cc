#include "shim/process/begin.h"

#include <fcntl.h>
#include <unistd.h>

#include <sys/resource.h>
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "shim/base/clock.h"
#include "shim/base/process.h"
#include "shim/black_box/box.h"
#include "shim/crash_handlers/python.h"
#include "shim/crash_handlers/signals.h"
#include "shim/crash_handlers/terminate.h"
#include "shim/process/abort.h"
#include "shim/process/exit.h"
#include "shim/process/own_stacks.h"
#include "shim/python/interpreter.h"
#include "shim/python/lines.h"
#include "shim/resolve/libraries.h"
#include "watchdog/act/in_time.h"
#include "watchdog/descriptors/directory.h"
#include "watchdog/log/log.h"
#include "watchdog/rundir/leave.h"
#include "watchdog/rundir/process.h"
#include "watchdog/rundir/run_directory.h"
#include "watchdog/settings/excluded.h"
#include "watchdog/settings/redact.h"
#include "watchdog/settings/settings.h"
#include "watchdog/settings/variables.h"
#include "watchdog/watch/watchdog.h"

namespace ncclwatch::shim {
namespace {

const char* Environment(const char* name) { return std::getenv(name); }

template <std::size_t size>
void Put(char (&field)[size], const std::string& text) {
  std::memcpy(field, text.data(), std::min(text.size(), size - 1));
}

// More is read than the black box keeps: a secret that is cut is not known as one.
std::string CommandLine(const std::string& redact) {
  constexpr std::size_t kMost = 16 << 10;
  const std::string words = rundir::ReadSmall("/proc/self/cmdline", kMost).value_or("");
  return settings::CommandText(words, words.size() < kMost, redact);
}

format::Identity Identify(const rundir::Launch& launch, const settings::Settings& settings) {
  format::Identity identity{};
  Put(identity.boot_id, rundir::BootId());
  Put(identity.host, rundir::HostName());
  Put(identity.job, launch.job);
  Put(identity.master_address, launch.master_address);
  Put(identity.command, CommandLine(settings.redact));
  identity.pid_namespace = rundir::PidNamespace();
  identity.pid = static_cast<std::uint32_t>(getpid());
  identity.uid = getuid();
  if (const auto own = rundir::StatOf(getpid())) identity.start_time = own->start_time;
  identity.attempt = launch.attempt;
  identity.rank = launch.rank;
  identity.world_size = launch.world_size;
  identity.local_rank = launch.local_rank;
  identity.local_world_size = launch.local_world_size;
  identity.master_port = launch.master_port;
  return identity;
}

// What the scheduler calls the machine; null: nothing but its host name is known. Kubernetes tells a pod the name of
// its node if the manifest asks for it, by convention as NODE_NAME.
const char* NodeName() {
  for (const char* name : {"NCCLWATCH_NODE", "SLURMD_NODENAME", "NODE_NAME"})
    if (const char* value = Environment(name); value && *value) return value;
  return nullptr;
}

std::string FileName(const format::Identity& identity) {
  std::string host(identity.host);
  std::replace(host.begin(), host.end(), '/', '_');
  return host + "." + std::to_string(identity.pid) + "." + std::to_string(identity.start_time) + format::kBoxSuffix;
}

// With the processes above this one: the application's first call waits for it.
constexpr int kPatience_ms = 200;

// Watching needs a few descriptors for as long as the process lives (box, lease, one pidfd a peer). Where hardly any
// are left the host needs them more: a job that ran must not fail for ours.
constexpr int kDescriptorsWanted = 16;
constexpr rlim_t kDescriptorsProbed = 65536;  // bounds the search in a huge and full table

bool DescriptorsAreScarce() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return false;
  int free = 0;
  const rlim_t lowest = limit.rlim_cur > kDescriptorsProbed ? limit.rlim_cur - kDescriptorsProbed : 0;
  for (rlim_t fd = limit.rlim_cur; fd > lowest && free < kDescriptorsWanted; --fd)
    if (fcntl(static_cast<int>(fd - 1), F_GETFD) < 0) ++free;
  return free < kDescriptorsWanted;
}

// Another copy of this library in the process, at another path, makes the box (a preload and a drop-in): each call
// shall be recorded once. Seen by its mapping, not by its file: that one may be left from before an exec, which keeps
// the pid and the start time, and to open and close it would drop the lock.
bool AnotherCopyWatches() {
  const auto own = rundir::StatOf(getpid());
  if (!own) return false;
  const std::string name = "." + std::to_string(getpid()) + "." + std::to_string(own->start_time) + format::kBoxSuffix;
  const auto maps = rundir::ReadSmall("/proc/self/maps", 64 << 20);
  return maps && maps->find(name) != std::string::npos;
}

// Of the process that made the box before this one, if this is a fork child of it.
std::int32_t rank_before_fork = format::kNoRank;

// A fork child that was given no rank of its own bears its parent's variables: the rank is its parent's.
void TakeBackInheritedRank(rundir::Launch* launch) {
  const bool inherited = launch->rank >= 0 && launch->rank == rank_before_fork;
  rank_before_fork = launch->rank;
  if (inherited) launch->rank = launch->local_rank = format::kNoRank;
}

// All ranks of a job would say the same thing. A process without a rank is taken for the first of its machine.
bool SpeaksForAll(const rundir::Launch& launch) {
  return launch.rank == 0 || (launch.rank < 0 && launch.local_rank <= 0);
}

void SayWhatIsWrong(const settings::Settings& settings, const rundir::Launch& launch,
                    const std::vector<settings::Complaint>& complaints) {
  if (!SpeaksForAll(launch)) return;
  for (const settings::Complaint& complaint : complaints) log::host::Warn("{}", complaint.text);
  if (!settings.on) return;
  for (const std::string& complaint : settings::Misspelt(environ)) log::host::Warn("{}", complaint);
  if (!settings.why_no_exchange.empty() && launch.local_world_size > 0 && launch.world_size > launch.local_world_size)
    log::host::Warn("the nodes exchange nothing: {}", settings.why_no_exchange);
}

// Whether calls are to have lines of Python. All ranks of a job would say the same thing.
bool FindPython(settings::Sites sites, const rundir::Launch& launch, pyframes::Interpreter* interpreter) {
  if (sites == settings::Sites::kOff || sites == settings::Sites::kNative) return false;
  const pyframes::Found found = pyframes::Find(interpreter);
  if (found == pyframes::Found::kUnknown && SpeaksForAll(launch))
    log::host::Warn("this build of Python is not known: calls keep their native call sites");
  if (found == pyframes::Found::kNone && sites == settings::Sites::kPython && SpeaksForAll(launch))
    log::host::Warn("NCCLWATCH_SITES=python: there is no Python in this process");
  return found == pyframes::Found::kKnown;
}

// Where there is little room a box has fewer records, but no fewer than tell what the last calls were.
std::vector<std::uint32_t> Rings(const BoxPlan& plan) {
  constexpr std::uint32_t kFewest = 1024;
  std::vector<std::uint32_t> rings = {plan.ring};
  while (rings.back() / 2 >= kFewest) rings.push_back(rings.back() / 2);
  return rings;
}

std::vector<std::uint64_t> BoxSizes(BoxPlan plan, const std::vector<std::uint32_t>& rings) {
  std::vector<std::uint64_t> sizes;
  for (const std::uint32_t ring : rings) {
    plan.ring = ring;
    sizes.push_back(BoxBytes(plan));
  }
  return sizes;
}

// The thread outlives everything that could end it in an orderly way: it is never destroyed.
void LaunchWatchdog(Box& box, const descriptors::Directory& directory, const std::string& name,
                    const settings::Settings& settings) {
  watch::Start start;
  start.own = box.header;
  start.own_path = directory.PathOf(name);
  start.directory = directory;
  start.own_guard = box.guard;
  start.settings = settings;
  start.abort_communicators = AbortCommunicators;
  start.sample_own_stacks = SampleOwnStacks;
  auto watchdog = watch::Watchdog::Launch(start);
  if (!watchdog) log::host::Error("no watchdog thread ({}): calls are recorded, but not watched", std::strerror(errno));
  static_cast<void>(watchdog.release());
}

}  // namespace

Box* Begin(std::uint32_t library, bool (*decide)(Box*)) {
  std::vector<settings::Complaint> complaints;
  const settings::Settings settings = settings::FromEnvironment(Environment, &complaints);
  if (settings::IsExcluded(settings.exclude)) return nullptr;
  log::SetLevel(settings.log);
  rundir::Launch launch = rundir::FromLauncher(settings, Environment, act::InTime(kPatience_ms));
  log::SetRank(launch.rank);
  SayWhatIsWrong(settings, launch, complaints);
  if (!settings.on || AnotherCopyWatches()) return nullptr;

  if (DescriptorsAreScarce()) {
    log::host::Error("not watching: hardly any file descriptor is left");
    return nullptr;
  }

  clock::Start();
  TakeBackInheritedRank(&launch);
  BoxPlan plan;
  plan.ring = settings.ring;
  plan.communicators = settings.communicators;
  pyframes::Interpreter interpreter;
  plan.python_sites = FindPython(settings.sites, launch, &interpreter);
  const std::vector<std::uint32_t> rings = Rings(plan);
  const auto place = rundir::Make(settings, launch, BoxSizes(plan, rings));
  if (const auto* refused = std::get_if<rundir::Refused>(&place)) {
    log::host::Error("not watching: {}", refused->reason);
    return nullptr;
  }
  const auto& made = std::get<rundir::Made>(place);
  const descriptors::Directory directory = descriptors::Directory::Own(made.path);
  if (directory) log::KeepIn(directory);
  if (!made.remark.empty()) log::host::Warn("{}", made.remark);

  plan.ring = rings[made.size];
  plan.directory = made.path;
  plan.identity = Identify(launch, settings);
  plan.name = FileName(plan.identity);
  const auto outcome = MakeBox(plan);
  if (const auto* failure = std::get_if<BoxFailure>(&outcome)) {
    log::host::Error("not watching: {}", failure->reason);
    return nullptr;
  }
  Box* box = std::get<Box*>(outcome);
  box->gpu_marks_wanted = settings.gpu != settings::GpuMarks::kOff;
  box->start_marks_wanted = settings.gpu == settings::GpuMarks::kBoth;
  box->times_every = settings.profiler.every;
  box->times_beside_others = settings.profiler.beside_others;
  if (settings.sites == settings::Sites::kOff) box->site_mask = 0;
  if (plan.python_sites) StartPythonLines(*box, interpreter);
  box->makes_sends_synchronous = settings.mpi_checks.sync;
  box->watches_buffers = settings.mpi_checks.buffers;
  if (const char* names = settings.redact.empty() ? nullptr : strdup(settings.redact.c_str()))
    box->secret_names = names;
  if (box->start_marks_wanted) box->detours = kMarksStarts;
  if (!box->gpu_marks_wanted) box->header->gpu_marks = static_cast<std::uint32_t>(format::GpuMarks::kOff);
  NoteLibrary(*box, library);
  if (const char* node = NodeName()) box->header->node = AddString(*box, node);
  if (!decide(box)) {
    AbandonBox(*box, plan);
    return nullptr;
  }
  if (const std::string reason = PublishBox(*box, plan); !reason.empty()) {
    log::host::Error("not watching: {}", reason);
    return nullptr;
  }
  if (!made.by_name && !settings.keep.all) rundir::PrepareToLeave(made.top, made.path, plan.name, box->header);
  CatchExits();
  CatchFatalSignals(*box, settings.crash_stack);
  CatchTerminate();
  WatchPython();
  LaunchWatchdog(*box, directory, plan.name, settings);
  return box;
}

}  // namespace ncclwatch::shim
