// Writing under RLIMIT_FSIZE (`ulimit -f`). A write or an allocation beyond the limit ends the process by SIGXFSZ, and
// the process is the host. All files that ncclwatch writes in a host are written by these functions, which fail with
// EFBIG instead. Thread-safe and async-signal-safe.
#pragma once

#include <cstdint>
#include <string_view>

namespace ncclwatch::descriptors {

// The size that a file of this process may have, in bytes; INT64_MAX if there is no limit.
std::int64_t FileSizeLimit();
// Whether `bytes` more may be written to `fd` where it stands now. True for what is no regular file.
bool MayGrow(int fd, std::uint64_t bytes);
// posix_fallocate(3) from the beginning of the file: 0 or an errno.
int Allocate(int fd, std::uint64_t bytes);
// All of it, or false and errno. Nothing is written if not all of it fits below the limit.
bool WriteAll(int fd, std::string_view bytes);

}  // namespace ncclwatch::descriptors
