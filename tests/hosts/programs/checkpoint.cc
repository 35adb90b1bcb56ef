// checkpoint closes|finds-closed: opens a file that gets the number of standard error, and uses NCCL. It ends when
// something was written to that file, or the log of its run directory says that it is watched.
#include <fcntl.h>

#include <fstream>
#include <iterator>

#include "host.h"

namespace {

std::string Content(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
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
  const auto watched = [&log] { return Content(log).find("watching ") != std::string::npos; };
  for (int i = 0; i < 1000 && !watched() && Content("checkpoint").empty(); ++i) usleep(10'000);
  return write(fd, "weights", 7) == 7 ? 0 : 96;
}
