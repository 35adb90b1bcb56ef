// What all programs of NCCL have: text with names of fmt in braces, and parts that only some of them need.
#pragma once

namespace ncclwatch::analyzer {

// The ranks are processes of one program, so that nothing else is needed to start them.
inline constexpr char kNcclSource[] = R"(// {title}
#include <cuda_runtime.h>
#include <nccl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <string>
#include <utility>
#include <vector>

#define CHECK(call) \
  if (int error = call) fprintf(stderr, "rank %d: %s: error %d\n", rank, #call, error), exit(1)
#define CALL(...)     \
  do {{                \
    in = #__VA_ARGS__; \
    CHECK((__VA_ARGS__)); \
  }} while (0)
#define ENQUEUE(stream, ...) \
  do {{                       \
    CALL(__VA_ARGS__);       \
    Enqueued(stream, in);    \
  }} while (0)

{reports}
constexpr int kRanks = {ranks};
static struct Shared {{
  volatile int staying;  // ranks that wait to be ended
  struct {{ volatile bool made; ncclUniqueId id; }} comms[{comms}];
}}* shared;
static int memory = -1;  // of that
static pid_t processes[kRanks];

static ncclUniqueId Id(int comm, bool make) {{
  if (make) CHECK(ncclGetUniqueId(&shared->comms[comm].id));
  if (make) shared->comms[comm].made = true;
  while (!shared->comms[comm].made) usleep(1000);
  return shared->comms[comm].id;
}}
{data}{forever}{stay}
static void EndAll(int) {{
  for (pid_t process : processes) kill(process, SIGKILL);
}}

// Ranks that stay go with the last one that does not. The status: 124 if a rank was stopped, else that of one that failed.
static int Launcher() {{
  signal(SIGALRM, EndAll);
  alarm(Timeout() + 3);  // a frozen rank cannot end itself
  int worst = 0, status = 0;
  for (int left = kRanks; left > shared->staying && wait(&status) > 0; --left) {{
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (code != 0 && worst != 124) worst = code;
  }}
  EndAll(0);
  return worst;
}}

// A process of its own, with the variables that a launcher sets.
static pid_t Start(int own) {{
  const pid_t process = fork();
  if (process != 0) return process;
  setenv("RANK", std::to_string(own).c_str(), 1);
  setenv("WORLD_SIZE", "{ranks}", 1);
  setenv("REPRO_MEMORY", std::to_string(memory).c_str(), 1);
  execl("/proc/self/exe", "repro", nullptr);
  _exit(127);
}}

int main() {{
  const char* const started = getenv("REPRO_MEMORY");
  memory = started ? atoi(started) : memfd_create("repro", 0);
  if (!started && ftruncate(memory, sizeof(Shared)) != 0) return 1;
  shared = static_cast<Shared*>(mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0));
  if (!started) {{
    for (int own = 0; own < kRanks; ++own) processes[own] = Start(own);
    return Launcher();
  }}
  rank = atoi(getenv("RANK"));
  Watch();
  int devices = 0;
  CHECK(cudaGetDeviceCount(&devices));
  CHECK(cudaSetDevice(rank % devices));
{declarations}
{body}}}
)";

inline constexpr char kData[] = R"(
static void* Data(size_t bytes) {
  void* data = nullptr;
  CHECK(cudaMalloc(&data, bytes));
  return data;
}

static std::vector<std::pair<cudaEvent_t, const char*>> enqueued;

static void Enqueued(cudaStream_t stream, const char* call) {
  cudaEvent_t done;
  CHECK(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
  CHECK(cudaEventRecord(done, stream));
  enqueued.push_back({done, call});
}

static void WaitForGpu() {
  for (const auto& [done, call] : enqueued) {
    in = call;
    CHECK(cudaEventSynchronize(done));
  }
}
)";

inline constexpr char kForever[] = R"(
static void Forever(void*) {  // in a stream: what is enqueued behind it never begins
  for (;;) pause();
}
)";

inline constexpr char kNcclStay[] = R"(
static void Stay() {
  __atomic_add_fetch(&shared->staying, 1, __ATOMIC_SEQ_CST);
  for (;;) pause();
}
)";

}  // namespace ncclwatch::analyzer
