// The words of a job's command, those of a shell's `-c` among them.
#pragma once

#include <string>
#include <vector>

namespace ncclwatch::analyzer {

// bash -c "cd x; mpirun ./app" becomes bash, -c, cd, x, mpirun, ./app. Nothing is expanded.
std::vector<std::string> CommandWords(const std::vector<std::string>& command);

}  // namespace ncclwatch::analyzer
