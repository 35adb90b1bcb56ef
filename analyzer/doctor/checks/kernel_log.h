// The kernel's log, and what in it stands for broken hardware or for memory that ran out.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "analyzer/doctor/checks/machine.h"

namespace ncclwatch::doctor {

// All of /dev/kmsg, a record a read ("3,1204,98765432,-;NVRM: Xid ..."); none where this user may not, and why. The
// root's /dev/kmsg may be a plain file.
std::optional<std::string> KernelLog(const Machine& machine, std::string* why_not);

inline constexpr std::string_view kKilledForMemory = "process killed for memory";
// "Xid of a GPU"; empty: no trouble.
std::string_view TroubleIn(std::string_view line);

}  // namespace ncclwatch::doctor
