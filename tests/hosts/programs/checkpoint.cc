// checkpoint closes|finds-closed: opens a file that gets the number of standard error, and uses NCCL. It ends when
// something was written to that file, or to the log of its run directory.
#include <fcntl.h>
#include <sys/stat.h>

#include "host.h"

namespace {

off_t Bytes(const std::string& path) {
  struct stat file {};
  return stat(path.c_str(), &file) == 0 ? file.st_size : 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 98;
  if (std::strcmp(argv[1], "closes") == 0)
    for (int fd = 0; fd < 3; ++fd) close(fd);
  int fd = -1;
  while (fd < STDERR_FILENO) fd = open("checkpoint", O_WRONLY | O_CREAT | O_APPEND, 0600);
  if (fd != STDERR_FILENO) return 97;
  const ncclComm_t world = host::World();
  host::AllReduce(world, 141);
  const std::string log = std::string(std::getenv("NCCLWATCH_DIR")) + "/ncclwatch.log";
  for (int i = 0; i < 1000 && Bytes(log) == 0 && Bytes("checkpoint") == 0; ++i) usleep(10'000);
  return write(fd, "weights", 7) == 7 ? 0 : 96;
}
