// NCCLWATCH_HOOK: the user's command on a verdict.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace ncclwatch::act {

inline constexpr double kHookGrace_s = 5;  // from SIGTERM to SIGKILL

struct Hook {
  std::string command;
  std::string input;  // a file, on its standard input
  std::vector<std::string> environment;
  double limit_s = 30;
  std::function<void(const std::string&)> complain;  // called in another thread if it is ended at its limit, or fails
};

// Starts `/bin/sh -c command` and waits for nothing. The command gets the default signal mask and actions, a session of
// its own and no descriptor of the host but 0, 1, 2; it is nobody's child that the host could see with wait(-1), and
// sends the host no SIGCHLD. At the limit its process group gets SIGTERM, then SIGKILL, whether the host still lives or
// not. False if no thread could be made for it.
bool StartHook(Hook hook);

// The words that run a command under its limit: timeout(1) outlives the host. Without one, the shell alone.
std::vector<std::string> HookWords(const std::string& command, double limit_s);

// Without what would bring our library or the host's own into the command (LD_PRELOAD, LD_AUDIT, ...), and without the
// exchange's secrets. All else stays: a hook may need its own variables.
std::vector<std::string> HookEnvironment(const std::vector<std::string>& environment);

}  // namespace ncclwatch::act
