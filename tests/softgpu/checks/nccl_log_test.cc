// softgpu's own log of the calls.
#include <dirent.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "nccl_harness.h"

namespace softgpu::checks {
namespace {

std::vector<std::string> Lines(const std::filesystem::path& file) {
  std::vector<std::string> lines;
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

bool Has(const std::string& line, const std::string& part) { return line.find(part) != std::string::npos; }

SOFTGPU_BODY(MakesSomeCallsAndIsKilled) {
  std::vector<float> values(16, 1.0f);
  Rank rank(world);
  EXPECT_EQ(ncclSuccess, ncclBcast(values.data(), 16, ncclFloat32, 1, rank.comm, rank.stream));
  EXPECT_EQ(ncclSuccess, ncclGroupStart());
  EXPECT_EQ(ncclSuccess, ncclSend(values.data(), 3, ncclInt8, 1 - world.rank, rank.comm, rank.stream));
  EXPECT_EQ(ncclSuccess, ncclRecv(values.data() + 8, 3, ncclInt8, 1 - world.rank, rank.comm, rank.stream));
  EXPECT_EQ(ncclSuccess, ncclGroupEnd());
  EXPECT_EQ(ncclInvalidArgument,
            ncclReduce(values.data(), values.data(), 16, ncclFloat32, ncclMax, 5, rank.comm, rank.stream));
  rank.Sync();
  if (world.rank == 0) {
    EXPECT_EQ(ncclSuccess, ncclAllReduce(values.data(), values.data(), 16, ncclHalf, ncclAvg, rank.comm, rank.stream));
    ncclComm_t child = nullptr;
    ncclCommSplit(rank.comm, 3, 4, &child, nullptr);  // never returns: the other rank is gone by now
  }
  kill(getpid(), SIGKILL);
}

TEST(Log, HasEveryCallOfTheApplicationAndSurvivesAKill) {
  char directory[] = "/tmp/softgpu-nccl-log-XXXXXX";
  ASSERT_NE(nullptr, mkdtemp(directory));
  const std::filesystem::path path(directory);
  World world;
  world.nranks = 2;
  ASSERT_EQ(ncclSuccess, ncclGetUniqueId(&world.id));
  const std::vector<std::string> setting = {std::string("SOFTGPU_NCCL_LOG=") + directory};
  const pid_t first = StartProcess(world, "MakesSomeCallsAndIsKilled", setting);
  world.rank = 1;
  WaitProcess(StartProcess(world, "MakesSomeCallsAndIsKilled", setting));
  const auto log = path / (std::to_string(first) + ".jsonl");
  for (int i = 0; i < 30000 && Lines(log).size() < 11; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EndProcess(first);
  const std::vector<std::string> lines = Lines(log);
  ASSERT_EQ(11u, lines.size());
  const char* const functions[] = {"ncclCommInitRank", "ncclCommInitRank", "ncclBcast",    "ncclGroupStart",
                                   "ncclSend",         "ncclRecv",         "ncclGroupEnd", "ncclGroupEnd",
                                   "ncclReduce",       "ncclAllReduce",    "ncclCommSplit"};
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_TRUE(Has(lines[i], std::string("\"fn\":\"") + functions[i] + "\"")) << lines[i];
  }
  EXPECT_TRUE(Has(lines[0], "\"event\":\"enter\""));
  EXPECT_TRUE(Has(lines[1], "\"rank\":0,\"nranks\":2")) << lines[1];
  // ncclBcast calls ncclBroadcast: one line, the application's.
  EXPECT_TRUE(Has(lines[2], "\"count\":16,\"dtype\":7")) << lines[2];
  EXPECT_TRUE(Has(lines[2], "\"root\":1") && Has(lines[2], "\"red\":null") && Has(lines[2], "\"result\":0"))
      << lines[2];
  EXPECT_TRUE(Has(lines[4], "\"peer\":1") && Has(lines[4], "\"depth\":1")) << lines[4];
  EXPECT_TRUE(Has(lines[8], "\"result\":4") && Has(lines[8], "\"red\":2") && Has(lines[8], "\"depth\":0")) << lines[8];
  EXPECT_TRUE(Has(lines[9], "\"red\":4") && Has(lines[9], "\"dtype\":6")) << lines[9];
  EXPECT_TRUE(Has(lines[10], "\"event\":\"enter\"") && Has(lines[10], "\"color\":3,\"key\":4")) << lines[10];
  std::filesystem::remove_all(path);
}

SOFTGPU_BODY(ForksWhileOtherThreadsCall) {
  std::atomic<bool> stop{false};
  std::thread caller([&stop] {
    for (int version = 0; !stop;) ncclGetVersion(&version);
  });
  for (int i = 0; i < 500; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      int version = 0;
      ncclGetVersion(&version);
      _exit(version > 0 ? 0 : 1);
    }
    EXPECT_EQ(0, WaitProcess(child)) << "child " << i;
  }
  stop = true;
  caller.join();
}

// The log's lock was once held at a fork by a thread that the child does not have.
TEST(Log, AForkChildLogsItsOwnCallsWhateverOtherThreadsDoAtTheFork) {
  char directory[] = "/tmp/softgpu-nccl-log-XXXXXX";
  ASSERT_NE(nullptr, mkdtemp(directory));
  const pid_t parent =
      StartProcess(World(), "ForksWhileOtherThreadsCall", {std::string("SOFTGPU_NCCL_LOG=") + directory});
  EXPECT_EQ(0, WaitProcess(parent));
  const std::filesystem::path path(directory);
  int children = 0;
  for (const auto& file : std::filesystem::directory_iterator(path)) {
    if (file.path().stem() == std::to_string(parent)) continue;
    ++children;
    const std::vector<std::string> lines = Lines(file.path());
    EXPECT_TRUE(lines.size() == 1 && Has(lines[0], "\"n\":0,") && Has(lines[0], "ncclGetVersion")) << file.path();
  }
  EXPECT_EQ(500, children);
  std::filesystem::remove_all(path);
}

}  // namespace
}  // namespace softgpu::checks
