// Which rank this process is, and how rank 0's unique id reaches the others, whatever launched them.
#pragma once

#include <nccl.h>

#include <string>

namespace examples {

// From torchrun's variables (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT), else Open MPI's, MPICH's or
// Slurm's. Without any: one rank.
struct Job {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  std::string address;  // where rank 0 listens
  int port = 0;
  std::string key;  // the same on all ranks of this job and attempt: strangers on the port are turned away

  static Job FromEnvironment();
};

// Rank 0 makes an id and hands it, from a thread of its own, to whoever asks until the process ends; the others ask.
// `number` tells several ids of one job apart. Waits up to two minutes for rank 0, then ends the process.
ncclUniqueId ShareUniqueId(const Job& job, int number = 0);

}  // namespace examples
