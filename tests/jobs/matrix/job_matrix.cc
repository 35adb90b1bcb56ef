// Verdicts on simulated jobs held against the truth.
#include <cstdio>
#include <cstring>

#include "tests/jobs/matrix/modes.h"

namespace {

constexpr char kUsage[] =
    "job_matrix matrix  [--fault A,B] [--topology A,B] [--ranks 8,16,32] [--seeds 10] [--first 1] [--misses 20]\n"
    "                   [--least 99.5]   every fault on every topology, and the misses with the command that repeats "
    "each\n"
    "job_matrix healthy [--jobs 2000] [--looks 3] [--first 1]     no fault, at any instant\n"
    "job_matrix removed [--jobs 500] [--first 1] [--dir D] [--keep]   a fifth of the boxes missing, others cut\n"
    "job_matrix sifted  [--jobs 500] [--first 1] [--newest 8] [--dir D] [--show] [--keep]   images without most calls\n"
    "job_matrix peers   [--jobs 1000] [--first 1] [--topology A,B] [--fault A,B] [--misses 20] [--least 98]   "
    "messages\n"
    "job_matrix slow    [--fault A,B] [--ranks 8,64] [--seeds 5] [--first 1] [--show]   what slows a job, and from "
    "which "
    "step on\n"
    "job_matrix parts   [--fault A,B] [--ranks 64] [--seeds 5] [--first 1] [--least 96]   slow parts of the machine "
    "from "
    "boxes, live, and from lines of NCCL Inspector\n"
    "job_matrix quiet   [--hours 20] [--ranks 8,16] [--first 1] [--most 1]   hours of healthy jobs, looked at live\n"
    "job_matrix loops   [--seeds 5] [--first 1] [--least 99]   where steps begin\n"
    "job_matrix scale   [--ranks 1024,2048,4096] [--records 2048] [--topology T] [--fault F] [--dir D] [--limit-gib "
    "12] [--keep]\n"
    "job_matrix timed   --dir D              what `scale` measures, of boxes that are there\n";

}  // namespace

int main(int argc, char** argv) {
  using namespace ncclwatch::jobs;
  const Options options(argc, argv);
  const std::string mode = options.words().empty() ? "" : options.words().front();
  if (mode == "matrix") return RunMatrix(options);
  if (mode == "healthy") return RunHealthy(options);
  if (mode == "removed") return RunRemoved(options);
  if (mode == "sifted") return RunSifted(options);
  if (mode == "peers") return RunPeers(options);
  if (mode == "slow") return RunSlow(options);
  if (mode == "parts") return RunParts(options);
  if (mode == "quiet") return RunQuiet(options);
  if (mode == "loops") return RunLoops(options);
  if (mode == "scale") return RunScale(options, argv[0]);
  if (mode == "timed") return RunTimed(options);
  std::fputs(kUsage, stderr);
  return 2;
}
