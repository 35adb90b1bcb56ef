// A few calls of every kind. In each step rank --late comes --late-ms later than the others to the first AllReduce.
#include <unistd.h>

#include "common/worker.h"

using namespace examples;

namespace {

constexpr size_t kSmall = 64, kLarge = 4096;

void Launch(Worker& worker, float* room) {
  const int next = (worker.rank() + 1) % worker.size();
  const int previous = (worker.rank() + worker.size() - 1) % worker.size();
  const auto sum = [&](size_t count) {
    NCCL_CHECK(ncclAllReduce(worker.gradient(), worker.gradient(), count, ncclFloat32, ncclSum, worker.communicator(),
                             worker.stream()));
  };
  sum(kLarge);
  // Small before large: NCCL runs them in the other order.
  NCCL_CHECK(ncclGroupStart());
  sum(kSmall);
  sum(kLarge);
  NCCL_CHECK(ncclGroupEnd());
  NCCL_CHECK(ncclAllGather(worker.gradient(), room, kSmall, ncclBfloat16, worker.communicator(), worker.stream()));
  NCCL_CHECK(ncclGroupStart());
  NCCL_CHECK(ncclSend(worker.gradient(), kSmall, ncclFloat32, next, worker.communicator(), worker.stream()));
  NCCL_CHECK(ncclRecv(room, kSmall, ncclFloat32, previous, worker.communicator(), worker.stream()));
  NCCL_CHECK(ncclGroupEnd());
#ifdef NCCL_ALLTOALL
  NCCL_CHECK(ncclAlltoAll(room, room + kLarge, kSmall, ncclFloat32, worker.communicator(), worker.stream()));
#endif
}

// The graph is launched several times: its one call is recorded once, and its kernel is no single one.
void LaunchGraph(Worker& worker) {
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  CUDA_CHECK(cudaStreamBeginCapture(worker.stream(), cudaStreamCaptureModeThreadLocal));
  NCCL_CHECK(ncclReduceScatter(worker.gradient(), worker.gradient(), kSmall, ncclFloat32, ncclSum,
                               worker.communicator(), worker.stream()));
  CUDA_CHECK(cudaStreamEndCapture(worker.stream(), &graph));
  CUDA_CHECK(cudaGraphInstantiate(&executable, graph, 0));
  for (int i = 0; i < 3; ++i) CUDA_CHECK(cudaGraphLaunch(executable, worker.stream()));
  CUDA_CHECK(cudaStreamSynchronize(worker.stream()));
  CUDA_CHECK(cudaGraphExecDestroy(executable));
  CUDA_CHECK(cudaGraphDestroy(graph));
}

}  // namespace

int main(int argc, char** argv) {
  Options options(argc, argv, {{"steps", 20}, {"late", 1}, {"late-ms", 30}, {"graph", 0}});
  Worker worker(options);
  float* room;
  CUDA_CHECK(cudaMalloc(reinterpret_cast<void**>(&room), sizeof(float) * 2 * kLarge));
  for (long step = 0; step < options["steps"]; ++step) {
    if (worker.rank() == options["late"]) usleep(static_cast<useconds_t>(options["late-ms"] * 1000));
    Launch(worker, room);
    CUDA_CHECK(cudaStreamSynchronize(worker.stream()));
  }
  if (options["graph"] != 0) LaunchGraph(worker);
  CUDA_CHECK(cudaFree(room));
}
