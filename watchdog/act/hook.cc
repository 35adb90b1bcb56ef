#include "watchdog/act/hook.h"

#include "watchdog/act/program.h"
#include "watchdog/act/thread.h"

namespace ncclwatch::act {

bool StartHook(const std::string& command, const std::string& input, std::vector<std::string> environment) {
  Program program;
  program.arguments = {"/bin/sh", "-c", command};
  program.environment = std::move(environment);
  program.input = input;
  return StartThread("ncclwatch-hook", [program = std::move(program)] { RunProgram(program); });
}

}  // namespace ncclwatch::act
