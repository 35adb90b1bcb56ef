#include "analyzer/run/job_process.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "analyzer/files/descriptor.h"

namespace ncclwatch::analyzer {

Started StartJob(const std::vector<std::string>& words, const sigset_t& mask, const struct sigaction& child_action,
                 const struct sigaction& pipe_action) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  int failure[2];  // closed by a successful exec, else told errno
  if (pipe2(failure, O_CLOEXEC) != 0) return {-1, errno};
  const pid_t pid = fork();
  if (pid == 0) {
    sigaction(SIGCHLD, &child_action, nullptr);
    sigaction(SIGPIPE, &pipe_action, nullptr);
    sigprocmask(SIG_SETMASK, &mask, nullptr);
    execvp(arguments[0], arguments.data());
    const int error = errno;
    (void)!write(failure[1], &error, sizeof error);
    _exit(127);
  }
  Started started{pid, pid < 0 ? errno : 0};
  close(failure[1]);
  const Descriptor reported(failure[0]);
  int error = 0;
  ssize_t n = 0;
  while (pid > 0 && (n = read(reported.get(), &error, sizeof error)) < 0 && errno == EINTR) {
  }
  if (n == static_cast<ssize_t>(sizeof error)) {
    waitpid(pid, nullptr, 0);
    started = {-1, error};
  }
  return started;
}

int StatusOfFailure(int error) { return error == ENOENT || error == ENOTDIR ? 127 : 126; }

int StatusOf(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

}  // namespace ncclwatch::analyzer
