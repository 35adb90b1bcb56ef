// Descriptors that share a table with the host's. A program may close all that it does not know (daemons do, and
// launchers before an exec), and the next that it opens gets the lowest free number: if that was one of ours a moment
// ago, we would read from, write to and close a file of the program's. So ours lie where no program's own are.
#pragma once

#include <dirent.h>
#include <sys/types.h>

#include <string>

namespace ncclwatch::descriptors {

// The same descriptor at a high number; as it is where there is no room (RLIMIT_NOFILE), or where it is none.
int MoveHigh(int fd);

// As open(2), openat(2) and opendir(3): -1 or null, and errno. What they return is the file of that name, even if the
// program has closed the new descriptor at once and has opened a file of its own at that number.
int Open(const std::string& path, int flags, mode_t mode = 0);
int OpenAt(int directory, const char* name, int flags, mode_t mode = 0);
DIR* OpenDirectory(const std::string& path);

}  // namespace ncclwatch::descriptors
