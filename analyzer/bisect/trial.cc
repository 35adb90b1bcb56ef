#include "analyzer/bisect/trial.h"

#include <absl/time/clock.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "analyzer/console/units.h"
#include "analyzer/files/input_file.h"
#include "analyzer/files/scratch_folder.h"
#include "analyzer/jobs/diagnose.h"
#include "analyzer/jobs/locate.h"
#include "analyzer/jobs/signals.h"
#include "analyzer/triage/read_logs.h"

namespace ncclwatch::bisect {
namespace {

using analyzer::MonotonicNow;

constexpr int kCannotTell = 125;
constexpr absl::Duration kLook = absl::Milliseconds(10);

// A file for the output, that nobody finds by name any more; -1: none could be made.
int OutputFile() {
  const analyzer::ScratchFolder folder("bisect");
  if (folder.path().empty()) return -1;
  return open((folder.path() + "/output").c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
}

[[noreturn]] void Become(const Trial& trial, int output) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, SIG_DFL);
  for (const auto& [name, value] : trial.set) setenv(name.c_str(), value.c_str(), 1);
  for (const std::string& name : trial.unset) unsetenv(name.c_str());
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  if (output >= 0) dup2(output, STDOUT_FILENO), dup2(output, STDERR_FILENO);
  std::vector<char*> argv;
  for (const std::string& word : trial.command)
    argv.push_back(const_cast<char*>(word.c_str()));  // execvp changes nothing
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  _exit(127);
}

// What the job's own watch directories tell of it: those that have begun since.
std::string DiagnosisSince(std::int64_t began_ns) {
  for (const rundir::Listed& run : analyzer::ListRuns()) {
    if (run.modified_ns < began_ns || run.alive == 0) continue;
    reader::RunImage image = analyzer::ReadJob({run.path}, reader::Calls::kForVerdict);
    if (image.boxes.empty()) continue;
    const auto findings = analyzer::Diagnose(std::move(image)).findings;
    if (!findings.empty())
      return fmt::format("{}: {}", diagnosis::Name(findings.front().kind), findings.front().summary);
    return "watched, and nothing found";
  }
  return "";
}

// Children of children too: whoever loses its parent becomes ours.
void EndAll(pid_t group) {
  kill(-group, SIGKILL);
  for (int turn = 0; turn < 100; ++turn) {
    analyzer::InputFile file(fmt::format("/proc/self/task/{}/children", getpid()));
    bool any = false;
    for (pid_t child; file >> child;) any = true, kill(child, SIGKILL);
    while (waitpid(-1, nullptr, WNOHANG) > 0) continue;
    if (!any) return;
    absl::SleepFor(kLook);
  }
}

std::string FirstCause(int output) {
  static const auto matcher = analyzer::MakeMatcher({});
  if (!matcher.ok() || output < 0) return "";
  analyzer::LogFile file;
  file.path = fmt::format("/proc/self/fd/{}", output);
  struct stat status {};
  file.bytes = fstat(output, &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
  const analyzer::Triage triage = TriageOf(*matcher, {file});
  if (triage.causes.empty()) return "";
  const analyzer::TriageFinding& first = triage.causes.front();
  const std::string_view line = std::string_view(first.first.text).substr(0, 160);
  return fmt::format("{} (line {}: {})", first.summary, first.first.line, line);
}

Outcome OutcomeOf(int status) {
  if (status == 0) return Outcome::kGood;
  return status == kCannotTell ? Outcome::kUnknown : Outcome::kBad;
}

}  // namespace

Observation Run(const Trial& trial, std::string question) {
  Observation seen;
  seen.question = std::move(question);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const int output = OutputFile();
  const std::int64_t start = MonotonicNow(), began_ns = absl::ToUnixNanos(absl::Now());
  analyzer::CatchSignals();  // first: a signal right after the fork would end us, and leave what the child has started
  const pid_t child = fork();
  if (child == 0) Become(trial, output);
  if (child < 0) {
    if (output >= 0) close(output);
    return seen;
  }
  setpgid(child, child);
  int status = 0;
  rusage usage{};
  while (wait4(child, &status, WNOHANG, &usage) == 0) {
    if (analyzer::Ended()) {
      EndAll(child);
      if (output >= 0) close(output);
      throw Interrupted();
    }
    if (trial.limit_s && static_cast<double>(MonotonicNow() - start) > *trial.limit_s * 1e9) {
      seen.timed_out = true;
      seen.diagnosis = DiagnosisSince(began_ns);
      kill(-child, SIGKILL);
      wait4(child, &status, 0, &usage);
      break;
    }
    absl::SleepFor(kLook);
  }
  EndAll(child);
  seen.seconds = static_cast<double>(MonotonicNow() - start) / 1e9;
  seen.memory_peak = static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
  seen.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  seen.outcome = seen.timed_out ? Outcome::kBad : OutcomeOf(seen.status);
  if (seen.outcome == Outcome::kBad) seen.cause = FirstCause(output);
  if (output >= 0) close(output);
  return seen;
}

}  // namespace ncclwatch::bisect
