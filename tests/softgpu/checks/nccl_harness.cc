#include "nccl_harness.h"

#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>

namespace softgpu::checks {
namespace {

std::map<std::string, Body>& Bodies() {
  static std::map<std::string, Body> bodies;
  return bodies;
}

std::string ToHex(const ncclUniqueId& id) {
  std::string text;
  for (const char c : id.internal) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(c));
    text += digits;
  }
  return text;
}

ncclUniqueId FromHex(const char* text) {
  ncclUniqueId id{};
  for (size_t i = 0; i < sizeof id.internal; ++i) {
    id.internal[i] = static_cast<char>(std::stoi(std::string(text + 2 * i, 2), nullptr, 16));
  }
  return id;
}

// Arguments of a rank's process: --rank BODY RANK NRANKS ID.
int RunAsRank(char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const auto body = Bodies().find(argv[2]);
  if (body == Bodies().end()) return 3;
  UseDevice();
  body->second(World{std::atoi(argv[3]), std::atoi(argv[4]), FromHex(argv[5])});
  return ::testing::UnitTest::GetInstance()->ad_hoc_test_result().Failed() ? 1 : 0;
}

}  // namespace

NamedBody::NamedBody(const char* name, Body body) { Bodies()[name] = body; }

void UseDevice() {
  CUcontext context = nullptr;
  ASSERT_EQ(CUDA_SUCCESS, cuInit(0));
  ASSERT_EQ(CUDA_SUCCESS, cuDevicePrimaryCtxRetain(&context, 0));
  ASSERT_EQ(CUDA_SUCCESS, cuCtxSetCurrent(context));
}

CUstream NewStream() {
  CUstream stream = nullptr;
  EXPECT_EQ(CUDA_SUCCESS, cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  return stream;
}

bool StreamDoneWithin(CUstream stream, std::chrono::milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  for (;;) {
    const CUresult result = cuStreamQuery(stream);
    EXPECT_TRUE(result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY) << result;
    if (result != CUDA_ERROR_NOT_READY) return true;
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void RunThreads(int nranks, const std::function<void(const World&)>& body) {
  World world;
  world.nranks = nranks;
  ASSERT_EQ(ncclSuccess, ncclGetUniqueId(&world.id));
  std::vector<std::thread> threads;
  for (world.rank = 0; world.rank < nranks; ++world.rank) {
    threads.emplace_back([world, &body] {
      UseDevice();
      body(world);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

pid_t StartProcess(const World& world, const char* name, const std::vector<std::string>& environment) {
  const std::string rank = std::to_string(world.rank);
  const std::string nranks = std::to_string(world.nranks);
  const std::string id = ToHex(world.id);
  const char* arguments[] = {"/proc/self/exe", "--rank", name, rank.c_str(), nranks.c_str(), id.c_str(), nullptr};
  std::vector<const char*> variables;
  for (const std::string& variable : environment) variables.push_back(variable.c_str());
  for (char** variable = environ; *variable; ++variable) variables.push_back(*variable);
  variables.push_back(nullptr);
  pid_t pid = -1;
  EXPECT_EQ(0, posix_spawn(&pid, "/proc/self/exe", nullptr, nullptr, const_cast<char**>(arguments),
                           const_cast<char**>(variables.data())));
  return pid;
}

int WaitProcess(pid_t pid) {
  int status = -1;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

void EndProcess(pid_t pid) {
  if (pid <= 0) return;
  kill(pid, SIGKILL);
  WaitProcess(pid);
}

void RunProcesses(int nranks, const char* name, const std::vector<std::string>& environment) {
  World world;
  world.nranks = nranks;
  ASSERT_EQ(ncclSuccess, ncclGetUniqueId(&world.id));
  std::vector<pid_t> processes;
  for (world.rank = 0; world.rank < nranks; ++world.rank) {
    processes.push_back(StartProcess(world, name, environment));
  }
  for (const pid_t pid : processes) EXPECT_EQ(0, WaitProcess(pid)) << name;
}

Rank::Rank(const World& world) : stream(NewStream()) {
  EXPECT_EQ(ncclSuccess, ncclCommInitRank(&comm, world.nranks, world.id, world.rank));
}

Rank::~Rank() {
  if (comm) ncclCommAbort(comm);
  cuStreamDestroy(stream);
}

void Rank::Sync() const { EXPECT_EQ(CUDA_SUCCESS, cuStreamSynchronize(stream)); }

bool Rank::DoneWithin(std::chrono::milliseconds time) const { return StreamDoneWithin(stream, time); }

void Rank::Destroy() { EXPECT_EQ(ncclSuccess, ncclCommDestroy(std::exchange(comm, nullptr))); }

void Rank::Abort() { EXPECT_EQ(ncclSuccess, ncclCommAbort(std::exchange(comm, nullptr))); }

int Members(ncclComm_t comm, CUstream stream, int own_rank) {
  int mask = 1 << own_rank;
  EXPECT_EQ(ncclSuccess, ncclAllReduce(&mask, &mask, 1, ncclInt32, ncclSum, comm, stream));
  EXPECT_EQ(CUDA_SUCCESS, cuStreamSynchronize(stream));
  return mask;
}

}  // namespace softgpu::checks

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (argc == 6 && std::strcmp(argv[1], "--rank") == 0) return softgpu::checks::RunAsRank(argv);
  softgpu::checks::UseDevice();
  return RUN_ALL_TESTS();
}
