// What /proc says of one process. Reads into fixed buffers, safe while the process dies; nothing here throws but for
// memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "watchdog/descriptors/directory.h"

namespace ncclwatch::rundir {

struct ProcessStat {
  char state = '?';  // R S D T t Z X I
  std::int32_t parent = 0;
  std::int32_t group = 0;
  std::int32_t session = 0;
  std::uint64_t start_time = 0;           // field 22, clock ticks since boot
  std::optional<std::int32_t> exit_code;  // field 52, as waitpid gives it; only where the kernel lets us read it
};
// Of /proc/PID/stat; none if there is no such process.
std::optional<ProcessStat> StatOf(std::int32_t pid);

// At most `limit` bytes of a small file (of /proc, /sys, the run directory); none if it cannot be opened or read.
std::optional<std::string> ReadSmall(const std::string& path, std::size_t limit = 1 << 20);
// Likewise of a regular file in a directory.
std::optional<std::string> ReadSmall(const descriptors::Directory& directory, const std::string& name,
                                     std::size_t limit);

// The process's environment as it was at its start; none if it is gone or not ours to read.
std::optional<std::string> EnvironmentOf(std::int32_t pid);
// The value of NAME in such a block of NUL-terminated NAME=value strings.
std::optional<std::string_view> Find(std::string_view environment, std::string_view name);

// Inode of this process's pid namespace, in which alone its pid means something; 0 unknown.
std::uint64_t PidNamespace();
// "<pid>.<pid namespace>": for names of files that no other process makes, of another container neither.
std::string OwnPid();

// As a black box keeps it: 63 bytes at most; "localhost" if the system tells none.
std::string HostName();

// One line without its end: "/proc/sys/kernel/random/boot_id"; empty if unreadable.
std::string BootId();

}  // namespace ncclwatch::rundir
