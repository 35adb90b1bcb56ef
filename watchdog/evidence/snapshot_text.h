// What /proc tells of one process, as one text for the evidence folder.
#pragma once

#include <cstdint>
#include <string>

namespace ncclwatch::evidence {

// Command line, status, where each thread waits (wchan, and the kernel's stack where it is readable), then maps. At
// most about 1 MiB; empty if the process is gone. Secrets in the command line are hidden (settings/redact.h), those
// that `redact` names among them.
std::string ProcessText(std::int32_t pid, const std::string& redact);

}  // namespace ncclwatch::evidence
