// A host that reaps whatever child there is, as init-like programs do, while the library has a fault to look at:
// rank 1 comes late, so that the leader dumps evidence meanwhile.
#include <sys/wait.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "host.h"

int main(int argc, char** argv) {
  CHECK(argc == 2);
  const ncclComm_t world = host::World();
  host::AllReduce(world, 121);
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(std::atoi(argv[1]));
  std::thread late([world, end] {
    if (host::Rank() == 1) std::this_thread::sleep_until(end - std::chrono::milliseconds(200));
    host::AllReduce(world, 122);
  });
  long strangers = 0;
  while (std::chrono::steady_clock::now() < end) {
    int status = 0;
    const pid_t child = waitpid(-1, &status, WNOHANG);
    if (child != -1 || errno != ECHILD) ++strangers;
    usleep(200);
  }
  late.join();
  host::Say("strangers " + std::to_string(strangers));
  NCCL(ncclCommDestroy(world));
  return 0;
}
