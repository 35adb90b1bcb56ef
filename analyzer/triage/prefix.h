// What launchers and loggers put before the lines of a process: whose they are. Pure, thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace ncclwatch::analyzer {

struct LinePrefix {
  int rank = -1;        // of the job; -1: not said
  int local_rank = -1;  // on its host: torchrun's [default3]:
  int pid = -1;
  std::string_view host, rest;

  bool says_whose() const { return rank >= 0 || local_rank >= 0 || pid >= 0 || !host.empty(); }
};

// Prefixes that are none in most files. They count in a file where nearly all lines have them.
struct PrefixStyle {
  bool numbered = false;   // "3: ", of `srun -l`
  bool bracketed = false;  // "[3] ", of `mpiexec -l`
  bool hosts = false;      // "node03: ", of pdsh and DeepSpeed's launcher
};
PrefixStyle StyleOf(std::string_view block);

// They may follow one another: "[rank3]: ", "[default3]:", "[1,3]<stderr>:", "[prterun-node1-77@1,3]<stdout>: ",
// "(RayTrainWorker pid=4711, ip=10.0.0.3) ", "(Worker_TP3 pid=4711) ", and those of `style`.
LinePrefix ParsePrefix(std::string_view line, const PrefixStyle& style);

// Which process the text itself names: c10d's "[Rank 3]", NCCL's "host:pid:tid [3] NCCL", a kernel's host.
struct Speaker {
  int rank = -1, local_rank = -1, pid = -1;
  std::string host;
};
Speaker SpeakerOf(std::string_view line);

}  // namespace ncclwatch::analyzer
