#include "analyzer/run/collector_process.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include "analyzer/console/print.h"
#include "watchdog/act/files.h"

namespace ncclwatch::analyzer {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kPatience(20);  // for the rest to be written, on a slow disk
constexpr std::chrono::milliseconds kPoll(2);
constexpr int kMostStarts = 100;  // as in watchdog/act/collector.cc

// Of the living: nothing for readers.
bool IsLock(const std::string& name) { return name == "lease" || name == "collector" || name == "metrics"; }

}  // namespace

CollectorProcess::~CollectorProcess() { Finish(); }

// Not in this process group: an interrupt typed at the terminal is the job's, and the collector outlives the job.
bool CollectorProcess::Spawn() {
  pid_ = fork();
  if (pid_ != 0) return pid_ > 0;
  setpgid(0, 0);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGCHLD, SIG_DFL);
  if (const int null = open("/dev/null", O_RDWR); null >= 0) {  // the job's own, whose end somebody may wait for
    dup2(null, 0);
    dup2(null, 1);
  }
  unsetenv("LD_PRELOAD");
  if (most_.empty())
    execl("/proc/self/exe", "ncclwatch", "collect", "--wait", "--stay", "--quiet", "--to", to_.c_str(), place_.c_str(),
          nullptr);
  else
    execl("/proc/self/exe", "ncclwatch", "collect", "--wait", "--stay", "--quiet", "--to", to_.c_str(), "--max",
          most_.c_str(), place_.c_str(), nullptr);
  _exit(127);
}

absl::Status CollectorProcess::Start(const std::string& place, const std::string& to, std::uint64_t most_bytes) {
  place_ = place;
  to_ = to;
  most_ = most_bytes == 0 ? "" : std::to_string(most_bytes);
  return Spawn() ? absl::OkStatus() : absl::ErrnoToStatus(errno, "collector");
}

void CollectorProcess::Look() {
  int status = 0;
  if (pid_ <= 0 || waitpid(pid_, &status, WNOHANG) != pid_) return;
  pid_ = -1;
  if (!WIFSIGNALED(status)) return;
  if (++killed_ < kMostStarts)
    Spawn();
  else
    Note("calls are not recorded any more: the collector was killed {} times (signal {})", killed_, WTERMSIG(status));
}

void CollectorProcess::Finish() {
  if (pid_ <= 0) return;
  kill(pid_, SIGTERM);
  const auto deadline = Clock::now() + kPatience;
  while (waitpid(pid_, nullptr, WNOHANG) == 0) {
    if (Clock::now() < deadline) {
      std::this_thread::sleep_for(kPoll);
      continue;
    }
    Note("the collector still writes to {}", to_);
    break;
  }
  pid_ = -1;
}

void CopyEvidence(const std::string& place, const std::string& to) {
  const auto from = descriptors::Directory::Named(place), into = descriptors::Directory::Named(to);
  std::string first_error;
  std::error_code error;
  for (fs::recursive_directory_iterator next(place, error); !error && next != fs::recursive_directory_iterator();
       next.increment(error)) {
    const std::string name = fs::relative(next->path(), place, error).string();
    std::error_code ignored;
    std::string why;
    if (next->is_symlink(ignored)) continue;
    if (next->is_directory(ignored))
      why = act::MakeFolder(into, name);
    else if (next->is_regular_file(ignored) && !IsLock(next->path().filename().string()))
      why = act::CopyFile(from, into, name);
    if (first_error.empty()) first_error = why;
  }
  if (error) first_error = to + ": " + error.message();
  if (!first_error.empty()) Note("not all evidence was copied: {}", first_error);
}

}  // namespace ncclwatch::analyzer
