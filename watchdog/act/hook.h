// NCCLWATCH_HOOK: the user's command on a verdict.
#pragma once

#include <string>
#include <vector>

namespace ncclwatch::act {

// Starts `/bin/sh -c command` with `input` (a file) on its standard input and waits for nothing. The command gets the
// default signal mask and actions and no descriptor of the host but 0, 1, 2; it is nobody's child that the host could
// see with wait(-1), and sends the host no SIGCHLD. False if no thread could be made for it.
bool StartHook(const std::string& command, const std::string& input, std::vector<std::string> environment);

}  // namespace ncclwatch::act
