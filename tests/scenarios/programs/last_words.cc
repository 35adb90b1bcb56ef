// Trains until one rank comes to grief as $SCENARIO_END says. It uses NCCL as any program does and knows nothing else.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>

#include "common/worker.h"

using namespace examples;

namespace {

constexpr std::size_t kMiB = 1 << 20;
constexpr std::size_t kTooMuch = 96 * kMiB;  // of the 64 MiB that the devices of these jobs have

int* volatile nowhere = nullptr;

[[noreturn]] void DoNothingAnyMore() {
  for (;;) pause();
}

// What sanitizers would say of these two is known.
#define NOT_SANITIZED __attribute__((no_sanitize("address", "thread", "undefined")))

NOT_SANITIZED void WriteNowhere() { *nowhere = 1; }

int Descend(int at);
int (*volatile deeper)(int) = Descend;  // so that no compiler makes a loop of it, or knows that it has no end

NOT_SANITIZED int Descend(int at) {
  volatile char frame[512];
  frame[0] = static_cast<char>(at);
  return deeper(at + 1) + frame[0];
}

void Validate() { throw std::runtime_error("the batch of this rank is empty"); }

void AllocateOnDevice() {
  void* memory = nullptr;
  CUDA_CHECK(cudaMalloc(&memory, kTooMuch));
}

// Swallowed by somebody who believes that it can be tried again later.
void AllocateOnDeviceAndStay() {
  void* memory = nullptr;
  if (cudaMalloc(&memory, kTooMuch) != cudaSuccess) DoNothingAnyMore();
}

void AllocateForNccl() {
  void* memory = nullptr;
  NCCL_CHECK(ncclMemAlloc(&memory, kTooMuch));
}

void TakeAllMemory() {
  for (;;) {
    auto* block = static_cast<char*>(std::malloc(kMiB));
    if (block) std::memset(block, 1, kMiB);
  }
}

void ReadWhatNobodyAnswers() {
  static char block[4096];
  const int file = open(std::getenv("SCENARIO_FILE"), O_RDONLY | O_CLOEXEC);
  const ssize_t got = read(file, block, sizeof block);
  std::fprintf(stderr, "read %zd bytes of descriptor %d\n", got, file);
  std::exit(9);
}

ncclResult_t AskForTheImpossible(Worker& worker) {
  return ncclBroadcast(worker.metric(), worker.metric(), 1, ncclFloat32, worker.size(), worker.communicator(),
                       worker.stream());
}

void ComeToGrief(const std::string& how, Worker& worker) {
  const std::map<std::string, std::function<void()>> ways = {
      {"null", WriteNowhere},
      {"overflow", [] { Descend(0); }},
      {"abort", [] { abort(); }},
      {"terminate", Validate},
      {"cuda_memory", AllocateOnDevice},
      {"cuda_memory_and_stay", AllocateOnDeviceAndStay},
      {"nccl_memory", AllocateForNccl},
      {"host_memory", TakeAllMemory},
      {"read", ReadWhatNobodyAnswers},
      {"stop", [] { raise(SIGSTOP); }},
      {"refused", [&] { NCCL_CHECK(AskForTheImpossible(worker)); }},
      {"refused_and_stay",
       [&] {
         if (AskForTheImpossible(worker) != ncclSuccess) DoNothingAnyMore();
       }},
  };
  ways.at(how)();
}

}  // namespace

// NOLINTNEXTLINE(bugprone-exception-escape): one of the ways
int main(int argc, char** argv) {
  Options options(argc, argv, {});
  const std::string how = std::getenv("SCENARIO_END");
  Worker& worker = *new Worker(options);
  for (long step = 0; step < options["steps"]; ++step) {
    worker.Compute(step);
    if (options.Here(worker.rank(), step)) ComeToGrief(how, worker);
    worker.AverageGradient();
    worker.EndStep(step);
  }
  delete &worker;
}
