#include "watchdog/act/stacks.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>

#include "ncclwatch/format/sample.h"
#include "watchdog/act/files.h"
#include "watchdog/act/program.h"
#include "watchdog/rundir/process.h"
#include "watchdog/settings/rules.h"

namespace ncclwatch::act {
namespace {

constexpr std::string_view kVariable = "NCCLWATCH_COMMAND=";
constexpr std::size_t kMostTargets = 4096;  // what a command line has room for
constexpr std::size_t kMostSaid = 64 << 10;

std::string BesideThisFile() {
  Dl_info self{};
  if (dladdr(reinterpret_cast<const void*>(&FindCommand), &self) == 0 || !self.dli_fname) return {};
  // Not through links first: an installation may link to the library, with the command beside the link.
  std::string file = self.dli_fname;
  for (const bool resolved : {false, true}) {
    if (resolved || file[0] != '/') {
      char* whole = realpath(file.c_str(), nullptr);
      if (!whole) return {};
      file = whole;
      free(whole);
    }
    const std::string folder = file.substr(0, file.rfind('/'));
    for (const char* to_command : {"/../bin/ncclwatch", "/../../bin/ncclwatch"})  // lib/, lib/ncclwatch/
      if (const std::string command = folder + to_command; access(command.c_str(), X_OK) == 0) return command;
  }
  return {};
}

constexpr char kFolder[] = "stacks", kLog[] = "stacks/program.log", kCrashLog[] = "stacks/crash.log",
               kNamesLog[] = "names.log", kMeanwhileLog[] = "meanwhile.log", kMachineLog[] = "machine.log";
constexpr char kNoCommand[] = "the ncclwatch command is not beside the library (NCCLWATCH_COMMAND names it)";

std::string LastLine(const std::string& text) {
  const std::size_t end = text.find_last_not_of('\n');
  if (end == std::string::npos) return {};
  const std::size_t before = text.rfind('\n', end);
  std::string line = text.substr(before == std::string::npos ? 0 : before + 1, end - (before + 1) + 1);
  constexpr std::size_t kEnough = 200;
  return line.substr(0, kEnough);
}

std::string Reason(const std::string& command, const std::string& verb, const Outcome& outcome,
                   std::int64_t deadline_ms, const std::string& said) {
  char buffer[128];
  if (outcome.error != 0)
    return fmt::format("{}: {} (NCCLWATCH_COMMAND names another)", command,
                       strerror_r(outcome.error, buffer, sizeof(buffer)));
  if (!outcome.in_time)
    return fmt::format("{} {} was not done after {} s and ended", command, verb, deadline_ms / 1000);
  if (WIFSIGNALED(outcome.status))
    return fmt::format("{} {} was ended by signal {}", command, verb, WTERMSIG(outcome.status));
  if (WEXITSTATUS(outcome.status) == 0) return {};
  const std::string last = LastLine(said);
  return fmt::format("{} {} ended with status {}{}{}", command, verb, WEXITSTATUS(outcome.status),
                     last.empty() ? "" : ": ", last);
}

// The folder that it writes into. Empty, or why there is no use in starting it.
std::string MakeReady(const std::string& command, const descriptors::Directory& directory) {
  if (command.empty()) return kNoCommand;
  // One level only: a run directory that was removed meanwhile stays removed.
  if (std::string error = MakeFolder(directory, kFolder); !error.empty()) return error;
  return directory.IsAtItsPath() ? "" : directory.path() + ": another directory has its name by now";
}

void AddTarget(const StackTarget& target, Program* program) {
  const auto add = [&](const char* option, std::uint64_t value) {
    program->arguments.push_back(option);
    program->arguments.push_back(fmt::format("{}:{}", target.pid, value));
  };
  add("--started", target.start_time);
  if (target.thread != 0) add("--thread", target.thread);
}

// Its output goes to `log` in the directory. Empty, or why it has not done its work.
std::string Run(const descriptors::Directory& directory, const char* log, std::int64_t deadline_ms, Program program) {
  program.output = directory.PathOf(log);
  program.deadline_ms = deadline_ms;
  const Outcome outcome = RunProgram(program);
  return Reason(program.arguments[0], program.arguments[1], outcome, deadline_ms,
                rundir::ReadSmall(directory, log, kMostSaid).value_or(""));
}

// Writes into boxes, for an option that names each. Its log stays only if it failed.
struct Completion {
  std::string command;
  const char* option;
  const char* log;
  std::int64_t deadline_ms;
};
std::string CompleteBoxes(const Completion& how, const descriptors::Directory& directory,
                          const std::vector<std::string>& boxes, const std::vector<std::string>& environment) {
  Program program;
  program.arguments = {how.command, "stacks"};
  for (const std::string& box : boxes) {
    if (program.arguments.size() / 2 > kMostTargets) break;
    program.arguments.push_back(how.option);
    program.arguments.push_back(directory.PathOf(box));
  }
  program.environment = WithoutLoader(environment);
  std::string reason = Run(directory, how.log, how.deadline_ms, std::move(program));
  if (reason.empty()) directory.Unlink(how.log);
  return reason;
}

}  // namespace

std::string FindCommand(const std::vector<std::string>& environment) {
  std::string users;
  for (const std::string& variable : environment)
    if (users.empty() && variable.starts_with(kVariable)) users = variable.substr(kVariable.size());
  const settings::Ruled ruled = settings::Within(settings::RulesOfThisMachine(), "NCCLWATCH_COMMAND", users);
  return ruled.value.empty() ? BesideThisFile() : std::string(ruled.value);
}

std::string TakeStacks(const StacksRequest& request) {
  if (std::string error = MakeReady(request.command, request.directory); !error.empty()) return error;
  Program program;
  program.arguments = {request.command, "stacks", "--into", request.directory.PathOf(kFolder)};
  std::vector<std::string> pids;
  for (const StackTarget& target : request.targets) {
    if (pids.size() == kMostTargets) break;
    pids.push_back(std::to_string(target.pid));
    AddTarget(target, &program);
  }
  program.arguments.insert(program.arguments.end(), pids.begin(), pids.end());
  program.environment = WithoutLoader(request.environment);
  return Run(request.directory, kLog, kStacksDeadline_ms, std::move(program));
}

std::string SampleMeanwhile(const MeanwhileRequest& request) {
  if (request.command.empty()) return kNoCommand;
  constexpr std::int64_t kToFinish_ms = 2000;
  Program program;
  program.arguments = {request.command, "stacks", "--into", request.directory.path(), "--limit"};
  program.arguments.push_back(fmt::format("{:.3f}", static_cast<double>(request.limit_ms) / 1e3));
  for (const LateTarget& target : request.targets) {
    program.arguments.push_back("--meanwhile");
    program.arguments.push_back(fmt::format("{}:{}", target.pid, target.late_ns));
    AddTarget({target.pid, target.start_time, 0}, &program);
  }
  program.arguments.push_back(request.directory.path());
  program.environment = WithoutLoader(request.environment);
  return Run(request.directory, kMeanwhileLog, request.limit_ms + kToFinish_ms, std::move(program));
}

std::string LookAtMachine(const MachineRequest& request) {
  if (request.command.empty()) return kNoCommand;
  if (!request.directory.IsAtItsPath()) return request.directory.path() + ": another directory has its name by now";
  Program program;
  program.arguments = {request.command, "doctor", "--counters", request.directory.PathOf(request.file)};
  program.environment = WithoutLoader(request.environment);
  return Run(request.directory, kMachineLog, kMachineDeadline_ms, std::move(program));
}

std::string SampleOf(std::int32_t pid) {
  return std::string(kFolder) + "/" + std::to_string(pid) + format::kSampleSuffix;
}

std::string UnwindSamples(const StacksRequest& request) {
  if (request.command.empty()) return kNoCommand;
  Program program;
  program.arguments = {request.command, "stacks", "--into", request.directory.PathOf(kFolder)};
  struct stat info {};
  for (const StackTarget& target : request.targets) {
    const std::string sample = SampleOf(target.pid);
    if (program.arguments.size() / 2 == kMostTargets || !request.directory.Stat(sample, &info)) continue;
    program.arguments.push_back("--sample");
    program.arguments.push_back(request.directory.PathOf(sample));
  }
  constexpr std::size_t kNoSample = 4;
  if (program.arguments.size() == kNoSample) return {};
  if (!request.directory.IsAtItsPath()) return request.directory.path() + ": another directory has its name by now";
  program.environment = WithoutLoader(request.environment);
  return Run(request.directory, kLog, kSamplesDeadline_ms, std::move(program));
}

std::string NameCommunicators(const std::string& command, const descriptors::Directory& directory,
                              const std::vector<std::string>& boxes, const std::vector<std::string>& environment) {
  if (!directory.IsAtItsPath()) return directory.path() + ": another directory has its name by now";
  return CompleteBoxes({command, "--names", kNamesLog, kNamesDeadline_ms}, directory, boxes, environment);
}

std::string UnwindCrashes(const std::string& command, const descriptors::Directory& directory,
                          const std::vector<std::string>& boxes, const std::vector<std::string>& environment) {
  if (std::string error = MakeReady(command, directory); !error.empty()) return error;
  return CompleteBoxes({command, "--crash", kCrashLog, kCrashDeadline_ms}, directory, boxes, environment);
}

}  // namespace ncclwatch::act
