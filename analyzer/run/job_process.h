// The job's own process: started as a shell would start it, in this process group and with this terminal.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <string>
#include <vector>

namespace ncclwatch::analyzer {

struct Started {
  pid_t pid = -1;
  int error = 0;  // errno of exec; then there is no process
};

// `mask` and `pipe_action` are what the job shall inherit: as this program found them.
Started StartJob(const std::vector<std::string>& words, const sigset_t& mask, const struct sigaction& child_action,
                 const struct sigaction& pipe_action);

// 127 for a command that is not there, 126 for one that cannot be run, as a shell says it.
int StatusOfFailure(int error);
// As waitpid() gave it: the exit status, or 128 + signal.
int StatusOf(int wait_status);

}  // namespace ncclwatch::analyzer
