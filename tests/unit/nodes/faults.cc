#include "tests/unit/nodes/faults.h"

#include <csignal>

namespace ncclwatch::testing {
namespace {

std::vector<int> Without(std::vector<int> ranks, int one) {
  std::erase(ranks, one);
  return ranks;
}

// The world, pairs of neighbours (0,1) (2,3) ..., evens and odds.
Job Training() {
  Job job(8);
  for (int first = 0; first < 8; first += 2) job.Comm({first, first + 1}, "tensor", kWorld);
  job.Comm({0, 2, 4, 6}, "data", kWorld);
  job.Comm({1, 3, 5, 7}, "data", kWorld);
  for (int step = 0; step < 40; ++step) {
    job.Pass(0.02);
    for (int pair = 0; pair < 4; ++pair) job.Done({2 * pair, 2 * pair + 1}, 1 + pair, AllGather());
    job.Done({0, 2, 4, 6}, 5, AllReduce());
    job.Done({1, 3, 5, 7}, 6, AllReduce());
    job.Done(Range(0, 8), kWorld, AllReduce(1));
  }
  return job;
}

Job Skips() {
  Job job = Training();
  job.Call({0, 1, 2, 3, 4, 6, 7}, kWorld, AllReduce());
  job.Call({5}, kWorld, AllGather());
  job.Pass(0.5);
  return job;
}

Job OtherCount() {
  Job job = Training();
  job.Call({1, 3, 5}, 6, AllReduce(4096));
  job.Call({7}, 6, AllReduce(4097));
  job.Pass(0.5);
  return job;
}

Job NothingToSend() {
  Job job = Training();
  job.Call(Without(Range(0, 8), 6), kWorld, AllReduce(100));
  job.Call({6}, kWorld, AllReduce(0));
  job.Pass(0.5);
  return job;
}

Job Killed(int rank) {
  Job job = Training();
  job.Call(Without(Range(0, 8), rank), kWorld, AllReduce());
  job.Pass(0.1);
  job.Die(rank, Job::Signal(SIGKILL));
  job.Pass(0.05);
  return job;
}

Job LeftEarly() {
  Job job = Training();
  job.Die(4, Job::Status(0));
  job.Pass(0.1);
  for (const int rank : {0, 2, 6}) job.Enter(rank, 5, AllReduce());
  job.Pass(0.2);
  return job;
}

Job Loads() {
  Job job = Training();
  job.Call(Without(Range(0, 8), 3), kWorld, AllReduce());
  job.Pass(70);
  return job;
}

// Waits in its pair for a rank that waits for nobody; everyone else waits for it.
Job WaitsInTurn() {
  Job job = Training();
  job.Call({2}, 2, AllGather());
  job.Call({0, 4, 6}, 5, AllReduce());
  job.Call({1, 5, 7}, 6, AllReduce());
  job.Pass(70);
  return job;
}

Job Stopped() {
  Job job = Training();
  job.Call(Without(Range(0, 8), 6), kWorld, AllReduce());
  job.Silence(6);
  job.Observe(6, format::Observed::kStopped);
  job.Pass(70);
  return job;
}

Job Crossed() {
  Job job = Training();
  const auto on = [](std::uint64_t stream) {
    Spec spec = AllReduce();
    spec.stream = stream;
    return spec;
  };
  // On one stream, in opposite order: 0 and 2 against 4 and 6.
  job.Call({0, 2}, 5, on(7));
  job.Call({0, 2}, kWorld, on(7));
  job.Call({4, 6}, kWorld, on(7));
  job.Call({4, 6}, 5, on(7));
  job.Call({1, 3, 5, 7}, kWorld, on(7));
  job.Pass(70);
  return job;
}

Job NotAllJoin() {
  Job job(8, false);
  job.At(1);
  job.Joining(8, {0, 1, 2, 3, 4, 6, 7});
  job.Pass(70);
  return job;
}

Job SizesDiffer() {
  Job job(8, false);
  job.At(1);
  const int comm = job.Joining(8, Range(0, 8));
  job.Entry(6, comm).size = 9;
  job.Pass(1);
  return job;
}

Job NoPartner() {
  Job job = Training();
  for (int i = 0; i < 5; ++i) {
    job.Message(1, kWorld, Function::ncclSend, 6);
    job.Message(6, kWorld, Function::ncclRecv, 1);
    job.Finish({1, 6}, kWorld);
  }
  job.Message(6, kWorld, Function::ncclRecv, 1);
  job.Pass(70);
  return job;
}

Job GpuHeldUp() {
  Job job = Training();
  job.Starts();
  for (int i = 0; i < 2; ++i) job.Done(Range(0, 8), kWorld, AllReduce());
  job.Call(Range(0, 8), kWorld, AllReduce());
  job.Begin(Without(Range(0, 8), 5), kWorld);
  job.Pass(70);
  return job;
}

}  // namespace

std::vector<Fault> Faults() {
  return {{"order_mismatch", Skips},
          {"argument_mismatch", OtherCount},
          {"zero_count", NothingToSend},
          {"killed", [] { return Killed(5); }},
          {"killed_beside_the_hub", [] { return Killed(1); }},
          {"early_exit", LeftEarly},
          {"missing_participant", Loads},
          {"missing_participant_in_turn", WaitsInTurn},
          {"frozen", Stopped},
          {"deadlock", Crossed},
          {"initialization_hang", NotAllJoin},
          {"sizes_differ", SizesDiffer},
          {"point_to_point", NoPartner},
          {"device_stall", GpuHeldUp}};
}

}  // namespace ncclwatch::testing
