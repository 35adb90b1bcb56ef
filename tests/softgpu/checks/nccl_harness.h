// Ranks for the checks of softgpu's libnccl: as threads of the test, or as processes (the test's own program, started
// again), running the same body.
#ifndef SOFTGPU_CHECKS_NCCL_HARNESS_H_
#define SOFTGPU_CHECKS_NCCL_HARNESS_H_

#include <cuda.h>
#include <gtest/gtest.h>
#include <nccl.h>
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace softgpu::checks {

struct World {
  int rank = 0;
  int nranks = 0;
  ncclUniqueId id{};
};

using Body = void (*)(const World&);

// A body that can run in a process of its own has a name.
struct NamedBody {
  NamedBody(const char* name, Body body);
};
#define SOFTGPU_BODY(name)                                          \
  void name(const softgpu::checks::World& world);                   \
  const softgpu::checks::NamedBody register_##name(#name, &(name)); \
  void name([[maybe_unused]] const softgpu::checks::World& world)

// Runs the body on `nranks` threads; returns when all are done.
void RunThreads(int nranks, const std::function<void(const World&)>& body);

// Runs a named body in `nranks` processes and expects each to end well. `environment`: NAME=value pairs.
void RunProcesses(int nranks, const char* name, const std::vector<std::string>& environment = {});

// Starts one rank as a process. Its end is the caller's to see to.
pid_t StartProcess(const World& world, const char* name, const std::vector<std::string>& environment = {});
// Kills it if need be, and reaps it.
void EndProcess(pid_t pid);
// Waits for it, and returns what waitpid gives.
int WaitProcess(pid_t pid);

// One rank's communicator and stream. Aborts the communicator at the end if it still has one.
class Rank {
 public:
  explicit Rank(const World& world);
  ~Rank();
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  void Sync() const;
  // Whether all work on the stream is done within the time.
  bool DoneWithin(std::chrono::milliseconds time) const;
  void Destroy();
  void Abort();

  ncclComm_t comm = nullptr;
  CUstream stream = nullptr;
};

// Sum of 1 << rank over the members: tells exactly who took part.
int Members(ncclComm_t comm, CUstream stream, int own_rank);

// Makes the primary context of device 0 current.
void UseDevice();
CUstream NewStream();
bool StreamDoneWithin(CUstream stream, std::chrono::milliseconds time);

// How long something that must never happen is given to happen.
constexpr std::chrono::milliseconds kNever{300};
// How long something that must happen may take on a loaded machine.
constexpr std::chrono::milliseconds kSoon{30000};

// A buffer. Of the host: softgpu's kernels do not mind, and freeing device memory would wait for the whole device,
// which ranks that are threads share here.
class Memory {
 public:
  explicit Memory(size_t n) : bytes_(n, 0x5a) {}
  explicit Memory(const std::vector<uint8_t>& bytes) : bytes_(bytes) {}

  void* get() { return bytes_.data(); }
  void* at(size_t offset) { return bytes_.data() + offset; }
  const std::vector<uint8_t>& Read() const { return bytes_; }

 private:
  std::vector<uint8_t> bytes_;
};

}  // namespace softgpu::checks

#endif  // SOFTGPU_CHECKS_NCCL_HARNESS_H_
