// The job is being ended: communicators are aborted behind the application's back, and nothing that it does with them
// from then on reaches NCCL. Each case is a process of its own, since none survives it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string_view>
#include <thread>

#include "ncclwatch/format/lease.h"
#include "tests/unit/shim/fake_nccl.h"
#include "tests/unit/shim/support.h"

namespace ncclwatch::shim_test {
namespace {

using Clock = std::chrono::steady_clock;

// Says which expectation failed by the status that the test prints.
#define DEMAND(condition)                                                  \
  do {                                                                     \
    if (!(condition)) {                                                    \
      std::fprintf(stderr, "line %d: not so: %s\n", __LINE__, #condition); \
      _exit(50);                                                           \
    }                                                                      \
  } while (false)

class ShimEnding : public ::testing::Test {
 protected:
  ~ShimEnding() override { Remove(); }

  // Forks; the child runs `prepare`, the job is ended, the child runs `afterwards`. Its wait status.
  int Ended(const std::function<void()>& prepare, const std::function<void()>& afterwards) {
    Remove();  // of the case before, whose black box would be another job's
    directory_ = "/tmp/ncclwatch-ending-" + std::to_string(getpid());
    int ready[2];
    if (pipe(ready) != 0) return -1;
    const pid_t child = fork();
    if (child == 0) {
      setenv("NCCLWATCH_DIR", directory_.c_str(), 1);
      alarm(60);
      prepare();
      DEMAND(write(ready[1], "r", 1) == 1);
      afterwards();
      _exit(51);
    }
    close(ready[1]);
    char byte = 0;
    if (read(ready[0], &byte, 1) == 1) End();
    close(ready[0]);
    began_ = Clock::now();
    int status = 0;
    waitpid(child, &status, 0);
    return status;
  }
  double SecondsSinceTheEnd() const { return std::chrono::duration<double>(Clock::now() - began_).count(); }

 private:
  void Remove() const {
    std::error_code ignored;
    if (!directory_.empty()) std::filesystem::remove_all(directory_, ignored);
  }
  void End() const {
    int fd = -1;
    for (int i = 0; i < 5000 && (fd = open((directory_ + "/lease").c_str(), O_RDWR | O_CLOEXEC)) < 0; ++i) usleep(1000);
    ASSERT_GE(fd, 0);
    auto* lease =
        static_cast<format::Lease*>(mmap(nullptr, sizeof(format::Lease), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    close(fd);
    std::ofstream(directory_ + "/diagnosis.txt") << "missing_participant (likely): rank 2\n\nmore\n";
    lease->ending.store(1);
    munmap(lease, sizeof(format::Lease));
  }
  std::string directory_;
  Clock::time_point began_;
};

std::vector<std::string> calls;
void Collect() {
  for (std::string& name : FakeCalls()) calls.push_back(std::move(name));
}
bool Called(const char* name) {
  Collect();
  return std::find(calls.begin(), calls.end(), name) != calls.end();
}
void AwaitCall(const char* name) {
  while (!Called(name)) usleep(500);
}

ncclComm_t first, second, third;
void MakeThree() {
  first = MakeComm();
  second = MakeComm();
  third = MakeComm();
  DEMAND(ncclCommDestroy(third) == ncclSuccess);
  Collect();
  calls.clear();
}

TEST_F(ShimEnding, AbortsAreMadeInOneGroupAndNothingReachesTheLibraryAfterwards) {
  const int status = Ended(MakeThree, [] {
    while (AllReduce(first) == ncclSuccess) usleep(100);
    AwaitCall("ncclGroupEnd");
    calls.erase(std::remove(calls.begin(), calls.end(), "ncclAllReduce"), calls.end());
    DEMAND((calls == std::vector<std::string>{"ncclGroupStart", "ncclCommAbort", "ncclCommAbort", "ncclGroupEnd"}));
    FakeQuestions();
    DEMAND(AllReduce(first) == ncclRemoteError);
    DEMAND(ncclSend(nullptr, 1, ncclInt8, 1, second, nullptr) == ncclRemoteError);
    ncclResult_t state = ncclSuccess;
    DEMAND(ncclCommGetAsyncError(first, &state) == ncclSuccess && state == ncclRemoteError);
    // What frameworks add to their own error: torch asks without a communicator.
    const std::string_view why = ncclGetLastError(nullptr);
    DEMAND(why.find("missing_participant (likely): rank 2; see /") != why.npos);
    DEMAND(ncclGetLastError(first) == why);
    int number = -7;
    DEMAND(ncclCommCount(second, &number) != ncclSuccess && number == -7);
    ncclComm_t child = first;
    DEMAND(ncclCommSplit(first, 0, 0, &child, nullptr) == ncclRemoteError && child == nullptr);
    ncclUniqueId id{};
    ncclComm_t fresh = first;
    DEMAND(ncclCommInitRank(&fresh, 2, id, 0) == ncclRemoteError && fresh == nullptr);
    DEMAND(ncclGroupStart() == ncclSuccess);
    DEMAND(AllReduce(first) == ncclRemoteError);
    DEMAND(ncclGroupEnd() == ncclRemoteError);
    // What a framework does on an error.
    DEMAND(ncclGroupStart() == ncclSuccess);
    DEMAND(ncclCommAbort(first) == ncclSuccess);
    DEMAND(ncclGroupEnd() == ncclSuccess);
    DEMAND(ncclCommFinalize(second) == ncclSuccess);
    DEMAND(ncclCommDestroy(second) == ncclSuccess);
    DEMAND(FakeCalls().empty());
    DEMAND(FakeQuestions() == 0);
    _exit(33);  // its own error
  });
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 33);
}

TEST_F(ShimEnding, WhoDoesNotEndItselfEndsWith86) {
  const int status = Ended(MakeThree, [] {
    for (;;) pause();
  });
  ASSERT_TRUE(WIFEXITED(status)) << status;
  EXPECT_EQ(WEXITSTATUS(status), 86);
  EXPECT_GT(SecondsSinceTheEnd(), 1.5);
  EXPECT_LT(SecondsSinceTheEnd(), 10);
}

TEST_F(ShimEnding, WithoutCommunicatorsThereIsNothingToWaitFor) {
  const int status = Ended([] { ncclCommDestroy(MakeComm()); },
                           [] {
                             for (;;) pause();
                           });
  EXPECT_EQ(WEXITSTATUS(status), 86);
  EXPECT_LT(SecondsSinceTheEnd(), 1.5);
}

TEST_F(ShimEnding, SuccessIsNotBelieved) {
  for (auto* leave : {static_cast<void (*)(int)>(&_exit), static_cast<void (*)(int)>(&std::exit)}) {
    const int status = Ended(MakeThree, [leave] {
      while (AllReduce(first) == ncclSuccess) usleep(100);
      leave(0);
    });
    EXPECT_EQ(WEXITSTATUS(status), 86);
  }
}

TEST_F(ShimEnding, NonBlockingOnesAreEndedOnceTheyAreReady) {
  const int status = Ended(
      [] {
        ncclUniqueId id;
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        config.blocking = 0;
        ncclResult_t state = ncclSuccess;
        for (ncclComm_t* comm : {&first, &second}) {
          ncclGetUniqueId(&id);
          DEMAND(ncclCommInitRankConfig(comm, 2, id, 0, &config) == ncclInProgress);
        }
        FakeSettle(first, ncclSuccess);
        DEMAND(ncclCommGetAsyncError(first, &state) == ncclSuccess && state == ncclSuccess);
        FakeCalls();
      },
      [] {
        AwaitCall("ncclCommAbort");
        usleep(200'000);
        Collect();
        DEMAND(calls == std::vector<std::string>{"ncclCommAbort"});
        ncclResult_t state = ncclSuccess;
        DEMAND(ncclCommGetAsyncError(second, &state) == ncclSuccess && state == ncclInProgress);
        DEMAND(ncclCommAbort(second) == ncclSuccess);  // still the application's
        DEMAND(FakeCalls() == std::vector<std::string>{"ncclCommAbort"});
        _exit(36);
      });
  EXPECT_EQ(WEXITSTATUS(status), 36);
}

std::atomic<bool> aborted{false};
std::atomic<std::thread::id> stuck;
std::thread* stuck_thread;
ncclResult_t stuck_result = ncclSuccess;

TEST_F(ShimEnding, ACallThatIsStuckComesBack) {
  const int status = Ended(
      [] {
        MakeThree();
        FakeOnCall([] {
          if (std::this_thread::get_id() != stuck.load()) {
            aborted = aborted || Called("ncclCommAbort");
            return;
          }
          while (!aborted) usleep(500);
          FakeNextResult(ncclInternalError);
        });
        stuck_thread = new std::thread([] {
          stuck = std::this_thread::get_id();
          stuck_result = AllReduce(first);
        });
        while (!Called("ncclAllReduce")) usleep(100);
      },
      [] {
        stuck_thread->join();
        DEMAND(stuck_result == ncclInternalError);
        _exit(34);
      });
  EXPECT_EQ(WEXITSTATUS(status), 34);
}

TEST_F(ShimEnding, AnAbortThatHangsDoesNotHoldUpTheEnd) {
  const int status = Ended(
      [] {
        MakeThree();
        FakeOnCall([] {
          if (Called("ncclCommAbort")) pause();
        });
      },
      [] {
        for (;;) pause();
      });
  ASSERT_TRUE(WIFEXITED(status)) << status;
  EXPECT_EQ(WEXITSTATUS(status), 86);
  EXPECT_LT(SecondsSinceTheEnd(), 10);
}

// Many threads make and end communicators and call on them while the job is ended: every handle is ended exactly once,
// by the application or by us.
TEST_F(ShimEnding, DestroyingAtTheSameInstantIsTheApplicationsOrOurs) {
  constexpr int kThreads = 4;
  for (int round = 0; round < 5; ++round) {
    const int status =
        Ended([] { MakeThree(); },
              [] {
                std::vector<std::thread> threads;
                std::atomic<int> made{0}, destroyed{0};
                for (int i = 0; i < kThreads; ++i)
                  threads.emplace_back([&] {
                    ncclUniqueId id;
                    for (;;) {
                      ncclGetUniqueId(&id);
                      ncclComm_t comm = nullptr;
                      if (ncclCommInitRank(&comm, 1, id, 0) != ncclSuccess) return;
                      ++made;
                      AllReduce(comm);
                      DEMAND(ncclCommDestroy(comm) == ncclSuccess);
                      ++destroyed;
                    }
                  });
                for (std::thread& thread : threads) thread.join();
                AwaitCall("ncclCommAbort");
                usleep(300'000);
                Collect();
                const auto count = [](const char* name) { return std::count(calls.begin(), calls.end(), name); };
                // The two that lived all the time, and what the threads had just made.
                DEMAND(made == destroyed);
                DEMAND(count("ncclCommDestroy") + count("ncclCommAbort") == made + 2);
                DEMAND(count("ncclCommAbort") >= 2 && count("ncclCommAbort") <= 2 + kThreads);
                _exit(35);
              });
    EXPECT_EQ(WEXITSTATUS(status), 35);
  }
}

}  // namespace
}  // namespace ncclwatch::shim_test
