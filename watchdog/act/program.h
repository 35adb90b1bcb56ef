// Another program, started from within the host without the host seeing it: nobody's child that wait(-1) could find, no
// SIGCHLD, no descriptor of the host but those named, default signals, no core file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ncclwatch::act {

// The environment as strings, copied while the application's thread calls us: later it may change under our hands.
std::vector<std::string> CopyEnvironment();
// Without what would make the dynamic linker bring our library, or the host's own, into a program of ours.
std::vector<std::string> WithoutLoader(const std::vector<std::string>& environment);

struct Program {
  std::vector<std::string> arguments;  // the first is the path of the executable
  std::vector<std::string> environment;
  std::string input;   // file on standard input; empty: /dev/null
  std::string output;  // file, made anew, for standard output and error; empty: the host's own, as at its start
  std::int64_t deadline_ms = 0;  // then it is killed; 0: never
  // Given one, it has a session of its own, and all of its process group gets SIGTERM at the deadline, SIGKILL so much
  // later.
  std::int64_t grace_ms = 0;
};

struct Outcome {
  int error = 0;        // errno: it could not be started
  int status = 0;       // as waitpid gives it
  bool in_time = true;  // false: killed at the deadline
};

// Runs it and waits for its end, in a thread of ours: the calling one is held for as long. If the host ends meanwhile,
// the program goes on alone, until a little after its deadline.
Outcome RunProgram(const Program& program);

}  // namespace ncclwatch::act
