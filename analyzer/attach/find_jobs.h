// Jobs that run on this machine, by their processes alone.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace ncclwatch::analyzer::attach {

struct RankProcess {
  int pid = 0;
  std::uint64_t start_time = 0;  // field 22 of /proc/PID/stat
  int rank = -1;                 // of its launcher's environment, of its title ("VLLM::Worker_TP1"), or by age
  int local_rank = -1;
  bool watched = false;  // libncclwatch is in it
};

struct RunningJob {
  std::string name;                // "torchrun 4f1c", "slurm 4711.0", "processes of mpirun (pid 12)"
  int world_size = 0;              // 0: not known
  int launched = 0;                // ranks started on this machine; 0: not known
  double age_s = 0;                // of its youngest rank
  std::string slurm_job;           // empty: none of Slurm's
  bool by_age = false;             // nothing tells the ranks: they are numbered by start time
  std::vector<RankProcess> ranks;  // of this machine, by rank
};

// Processes of the user that have a library of NCCL, MPI or torch in them, or hold an NVIDIA device, and that a
// launcher has given a rank, or that look like workers. Children of a rank (data loaders) are none.
std::vector<RunningJob> FindJobs(uid_t user);

// The user's jobs that these processes belong to; those that belong to none are a job of their own.
std::vector<RunningJob> JobsOf(const std::vector<int>& pids, uid_t user);

}  // namespace ncclwatch::analyzer::attach
