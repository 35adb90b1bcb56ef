// `ncclwatch`: picks the sub-command from the table and hands it the rest of the line.
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>

#include "analyzer/commands/options/options.h"
#include "analyzer/commands/table.h"
#include "analyzer/console/print.h"
#include "ncclwatch/version.h"

namespace {

using namespace ncclwatch::analyzer;

std::string Help() {
  std::string text = "ncclwatch " NCCLWATCH_VERSION
                     ": finds out which rank hangs a distributed job, in which call, and why\n\n"
                     "Usage: ncclwatch COMMAND [ARGUMENTS]\n\nCommands:\n";
  for (const Command& command : Commands())
    text += fmt::format("  {:<11} {:<31} {}\n", command.name, command.synopsis, command.summary);
  text +=
      "\nDIR is a run directory, or `latest`; the default is the newest one. `ncclwatch COMMAND --help` says more.\n"
      "Exit status: 0 healthy or done, 1 a problem was found, 2 usage, 3 input unreadable.\n";
  return text;
}

// A line for each command: `ncclwatch help --json`.
int DescribeAll() {
  for (const Command& command : Commands())
    if (const int status = command.function(command, {kHelpAsJson}); status != kDone) return status;
  return kDone;
}

// A write beyond RLIMIT_FSIZE shall fail with EFBIG. By a handler: a signal that is ignored stays so in the programs
// that the command starts.
void FailBeyondFileLimit() {
  struct sigaction action {};
  sigaction(SIGXFSZ, nullptr, &action);
  if (action.sa_handler != SIG_DFL) return;
  action.sa_handler = [](int) {};
  action.sa_flags = SA_RESTART;
  sigaction(SIGXFSZ, &action, nullptr);
}

int RunCommand(int argc, char** argv) {
  const Arguments words(argv + (argc > 0 ? 1 : 0), argv + argc);
  if (words.empty()) {
    std::fputs(Help().c_str(), stderr);
    return kUsage;
  }
  const std::string& name = words.front();
  if (name == "--help" || name == "-h" || (name == "help" && words.size() == 1)) {
    WriteOut(Help());
    return kDone;
  }
  if (name == "--version") {
    std::puts("ncclwatch " NCCLWATCH_VERSION);
    return kDone;
  }
  const bool help = name == "help";
  if (help && words[1] == "--json") return DescribeAll();
  const Command* command = FindCommand(help ? words[1] : name);
  if (!command) {
    Complain("", "there is no command '{}'; `ncclwatch --help` lists them", help ? words[1] : name);
    return kUsage;
  }
  try {
    return command->function(*command, help ? Arguments{"--help"} : Arguments(words.begin() + 1, words.end()));
  } catch (const std::exception& error) {
    Complain(command->name, "{}", error.what());
    return kUnreadable;
  }
}

// What was printed may still be in the buffer, and the disk full.
int FlushOutput(int status) {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  Complain("", "standard output: {}", errno != 0 ? std::strerror(errno) : "an earlier write failed");
  return kUnreadable;
}

}  // namespace

int main(int argc, char** argv) {
  FailBeyondFileLimit();
  return FlushOutput(RunCommand(argc, argv));
}
