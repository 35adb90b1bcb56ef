#include "analyzer/export/calls/python_child.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <vector>

namespace ncclwatch::analyzer::exporting {
namespace {

// A program in a folder that PATH names absolutely: `.` would run what lies where the command is typed.
std::string FindInPath(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const char* const path = std::getenv("PATH");
  for (const absl::string_view folder : absl::StrSplit(path ? path : "/usr/bin:/bin", ':')) {
    const std::string found = absl::StrCat(folder, "/", name);
    if (absl::StartsWith(folder, "/") && access(found.c_str(), X_OK) == 0) return found;
  }
  return "";
}

// What the interpreter needs to start, and no variable that makes it load something.
std::vector<std::string> CleanEnvironment() {
  std::vector<std::string> kept;
  for (char** variable = environ; *variable; ++variable)
    for (const char* name : {"HOME=", "LANG=", "LC_", "LD_LIBRARY_PATH=", "PATH=", "TMPDIR=", "TZ="})
      if (absl::StartsWith(*variable, name)) kept.emplace_back(*variable);
  return kept;
}

}  // namespace

PythonChild::~PythonChild() {
  if (pid_ < 0) return;
  EndOfInput();
  Wait().IgnoreError();
}

absl::Status PythonChild::Start(std::string_view program) {
  const char* const named = std::getenv("NCCLWATCH_PYTHON");
  const std::string wanted = named && *named ? named : "python3";
  python_ = FindInPath(wanted);
  if (python_.empty()) {
    python_ = wanted;
    return absl::NotFoundError("it is not in PATH");
  }
  // A child that has died is told by the error of a write.
  std::signal(SIGPIPE, SIG_IGN);
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "pipe");
  const Descriptor child_in(in[0]);
  to_ = Descriptor(in[1]);
  if (pipe2(out, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "pipe");
  const Descriptor child_out(out[1]);
  from_ = Descriptor(out[0]);
  fcntl(to_.get(), F_SETPIPE_SZ, 1 << 20);  // fewer switches between the two

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, child_in.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, child_out.get(), STDOUT_FILENO);
  // Isolated: no module of the present directory, of PYTHONPATH or of the user's own folder comes first.
  std::string isolated = "-I", option = "-c", text(program);
  char* const words[] = {python_.data(), isolated.data(), option.data(), text.data(), nullptr};
  std::vector<std::string> variables = CleanEnvironment();
  std::vector<char*> environment;
  for (std::string& variable : variables) environment.push_back(variable.data());
  environment.push_back(nullptr);
  const int error = posix_spawn(&pid_, python_.c_str(), &actions, nullptr, words, environment.data());
  posix_spawn_file_actions_destroy(&actions);
  if (error == 0) return absl::OkStatus();
  pid_ = -1;
  return absl::ErrnoToStatus(error, python_);
}

absl::Status PythonChild::Write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = write(to_.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return absl::ErrnoToStatus(errno, python_);
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return absl::OkStatus();
}

std::string PythonChild::ReadLine() {
  std::string line;
  for (char next = 0;;) {
    const ssize_t count = read(from_.get(), &next, 1);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0 || next == '\n') return line;
    line.push_back(next);
  }
}

absl::Status PythonChild::Wait() {
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return status == 0 ? absl::OkStatus() : absl::UnavailableError(fmt::format("{} has failed", python_));
}

}  // namespace ncclwatch::analyzer::exporting
