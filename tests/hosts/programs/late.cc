// NCCL used by forked children: ranks of a launcher-like parent, ranks of a parent that is one too, and a child that
// makes its own communicator after its parent had one.
#include <sys/wait.h>

#include "host.h"

int main(int argc, char** argv) {
  CHECK(argc == 2);
  const std::string mode = argv[1];
  if (mode == "ranks") {
    constexpr int kRanks = 3;
    pid_t children[kRanks];
    for (int rank = 0; rank < kRanks; ++rank) {
      children[rank] = fork();
      if (children[rank] == 0) {
        setenv("RANK", std::to_string(rank).c_str(), 1);
        setenv("WORLD_SIZE", std::to_string(kRanks).c_str(), 1);
        const ncclComm_t world = host::World();
        for (int i = 0; i < 5; ++i) host::AllReduce(world, 101);
        NCCL(ncclCommDestroy(world));
        std::exit(40 + rank);
      }
    }
    for (int rank = 0; rank < kRanks; ++rank) {
      int status = 0;
      CHECK(waitpid(children[rank], &status, 0) == children[rank]);
      host::Say("child left with " + std::to_string(WEXITSTATUS(status)));
    }
    CHECK(waitpid(-1, nullptr, 0) == -1 && errno == ECHILD);
    return 0;
  }
  if (mode == "among") {
    constexpr int kRanks = 3;
    int rank = 0;
    setenv("WORLD_SIZE", std::to_string(kRanks).c_str(), 1);
    for (int other = 1; other < kRanks && rank == 0; ++other)
      if (fork() == 0) rank = other;
    setenv("RANK", std::to_string(rank).c_str(), 1);
    const ncclComm_t world = host::World();
    for (int i = 0; i < 5; ++i) host::AllReduce(world, 104);
    NCCL(ncclCommDestroy(world));
    if (rank > 0) std::exit(0);
    for (int child = 1; child < kRanks; ++child) {
      int status = 0;
      CHECK(waitpid(-1, &status, 0) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    return 0;
  }
  // CUDA does not survive a fork in the child, so that only calls without a device are promised there.
  const ncclComm_t world = host::Alone();
  host::AllReduce(world, 102);
  const pid_t child = fork();
  if (child == 0) {
    ncclUniqueId id;
    int version = 0;
    NCCL(ncclGetVersion(&version));
    ncclGetUniqueId(&id);
    ncclGroupStart();
    ncclGroupEnd();
    ncclComm_t communicator = nullptr;
    ncclCommInitRank(&communicator, 1, id, 5);  // rank out of range: an error, without a device
    host::Say(communicator ? "made" : "not made");
    std::exit(44);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  host::Say("child left with " + std::to_string(WEXITSTATUS(status)));
  host::AllReduce(world, 103);
  return 0;
}
