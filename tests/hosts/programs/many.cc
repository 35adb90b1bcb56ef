// Many communicators: alive at once, or one after another; threads as ranks; ncclCommInitAll; non-blocking ones.
#include <chrono>
#include <fstream>
#include <thread>

#include "host.h"

namespace {

long ResidentKiB() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmRSS:")) return std::atol(line.c_str() + 6);
  return 0;
}

int OpenFiles() {
  int open = 0;
  for (int fd = 0; fd < 4096; ++fd) open += lseek(fd, 0, SEEK_CUR) != -1 || errno != EBADF;
  return open;
}

void Alive(int count) {
  std::vector<ncclComm_t> communicators;
  for (int i = 0; i < count; ++i) communicators.push_back(host::Alone());
  for (const ncclComm_t communicator : communicators) host::AllReduce(communicator, 8);
  for (const ncclComm_t communicator : communicators) NCCL(ncclCommDestroy(communicator));
}

// Splits, so that every rank of the job has all of them.
void Splits(int count) {
  const ncclComm_t world = host::World();
  std::vector<ncclComm_t> communicators(count);
  for (ncclComm_t& communicator : communicators) NCCL(ncclCommSplit(world, 0, host::Rank(), &communicator, nullptr));
  for (const ncclComm_t communicator : communicators) host::AllReduce(communicator, 9);
  for (const ncclComm_t communicator : communicators) NCCL(ncclCommDestroy(communicator));
  host::AllReduce(world, 10);
  NCCL(ncclCommDestroy(world));
}

// Prints the growth of the second half in KiB and in open files: what it is over the limit depends on the library
// below too, so that the test compares with and without.
void Churn(int count) {
  const ncclComm_t keep = host::Alone();
  long middle = 0;
  int files = 0;
  // What is had once, by the library's thread too, has been had by the time that the second half begins.
  const auto warm = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  for (int i = 0; i < count; ++i) {
    if (i == count / 2 && std::chrono::steady_clock::now() < warm) i -= 100;
    if (i == count / 2) {
      middle = ResidentKiB();
      files = OpenFiles();
    }
    const ncclComm_t communicator = host::Alone();
    host::AllReduce(communicator, 4);
    NCCL(ncclCommDestroy(communicator));
  }
  host::AllReduce(keep, 5);
  host::Say("growth " + std::to_string(ResidentKiB() - middle) + " KiB " + std::to_string(OpenFiles() - files) +
            " files");
}

// No memory is allocated or freed while another rank's work is in flight: that waits for the whole device.
void Threads(int ranks) {
  ncclUniqueId id;
  NCCL(ncclGetUniqueId(&id));
  std::vector<int*> buffers(ranks);
  for (int*& buffer : buffers) CUDA(cudaMalloc(reinterpret_cast<void**>(&buffer), 120 * sizeof(int)));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([=] {
      CUDA(cudaSetDevice(0));
      cudaStream_t stream = nullptr;
      CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
      ncclComm_t communicator = nullptr;
      NCCL(ncclCommInitRank(&communicator, ranks, id, rank));
      std::vector<int> values(120, 1);
      CUDA(cudaMemcpyAsync(buffers[rank], values.data(), 120 * sizeof(int), cudaMemcpyHostToDevice, stream));
      for (int i = 0; i < 20; ++i)
        NCCL(ncclAllReduce(buffers[rank], buffers[rank], 100 + i, ncclInt32, i % 10 ? ncclMax : ncclSum, communicator,
                           stream));
      CUDA(cudaMemcpyAsync(values.data(), buffers[rank], 120 * sizeof(int), cudaMemcpyDeviceToHost, stream));
      CUDA(cudaStreamSynchronize(stream));
      for (int i = 0; i < 100; ++i) CHECK(values[i] == ranks * ranks);
      NCCL(ncclCommDestroy(communicator));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int* buffer : buffers) CUDA(cudaFree(buffer));
}

void InitAll(int ranks) {
  std::vector<ncclComm_t> communicators(ranks);
  std::vector<int> devices(ranks);
  int available = 0;
  CUDA(cudaGetDeviceCount(&available));
  CHECK(available >= ranks);
  for (int rank = 0; rank < ranks; ++rank) devices[rank] = rank;
  NCCL(ncclCommInitAll(communicators.data(), ranks, devices.data()));
  std::vector<int*> buffers(ranks);
  std::vector<cudaStream_t> streams(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    CUDA(cudaSetDevice(rank));
    CUDA(cudaStreamCreate(&streams[rank]));
    CUDA(cudaMalloc(reinterpret_cast<void**>(&buffers[rank]), sizeof(int)));
    CUDA(cudaMemcpy(buffers[rank], &rank, sizeof rank, cudaMemcpyHostToDevice));
  }
  for (int round = 0; round < 5; ++round) {
    NCCL(ncclGroupStart());
    for (int rank = 0; rank < ranks; ++rank)
      NCCL(ncclAllReduce(buffers[rank], buffers[rank], 1, ncclInt32, ncclMax, communicators[rank], streams[rank]));
    NCCL(ncclGroupEnd());
  }
  for (int rank = 0; rank < ranks; ++rank) {
    int value = 0;
    CUDA(cudaSetDevice(rank));
    CUDA(cudaStreamSynchronize(streams[rank]));
    CUDA(cudaMemcpy(&value, buffers[rank], sizeof value, cudaMemcpyDeviceToHost));
    CHECK(value == ranks - 1);
  }
  for (const ncclComm_t communicator : communicators) NCCL(ncclCommDestroy(communicator));
}

void Settle(ncclComm_t communicator) {
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) {
    NCCL(ncclCommGetAsyncError(communicator, &state));
    usleep(200);
  }
  NCCL(state);
}

void NonBlocking() {
  CUDA(cudaSetDevice(0));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t communicator = nullptr;
  const ncclUniqueId id = host::SharedId("world", host::Rank() == 0);
  const ncclResult_t made = ncclCommInitRankConfig(&communicator, host::Ranks(), id, host::Rank(), &config);
  CHECK(made == ncclSuccess || made == ncclInProgress);
  Settle(communicator);
  int* device = nullptr;
  CUDA(cudaMalloc(reinterpret_cast<void**>(&device), 4 * sizeof(int)));
  CUDA(cudaMemset(device, 0, 4 * sizeof(int)));
  for (int i = 0; i < 10; ++i) {
    const ncclResult_t called = ncclAllReduce(device, device, 4, ncclInt32, ncclSum, communicator, nullptr);
    CHECK(called == ncclSuccess || called == ncclInProgress);
    Settle(communicator);
    CUDA(cudaDeviceSynchronize());
  }
  const ncclResult_t finalized = ncclCommFinalize(communicator);
  CHECK(finalized == ncclSuccess || finalized == ncclInProgress);
  Settle(communicator);
  NCCL(ncclCommDestroy(communicator));
}

}  // namespace

int main(int argc, char** argv) {
  CHECK(argc == 3);
  const std::string mode = argv[1];
  const int count = std::atoi(argv[2]);
  if (mode == "alive") Alive(count);
  if (mode == "splits") Splits(count);
  if (mode == "churn") Churn(count);
  if (mode == "threads") Threads(count);
  if (mode == "init_all") InitAll(count);
  if (mode == "non_blocking") NonBlocking();
  host::Say("done");
  return 0;
}
