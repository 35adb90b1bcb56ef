// The first recorded call of a process. Each test runs in a fork child, which begins from nothing.
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <nccl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <thread>

#include "tests/unit/shim/support.h"

namespace {

using ncclwatch::shim_test::RunDirectory;

std::atomic<int> allocating{0};
std::atomic<bool> held{false};

}  // namespace

// In the place of the C library's: the making of a box takes as long as the test wants. Both names, since large file
// support chooses between them.
extern "C" {
[[gnu::visibility("default")]] int posix_fallocate(int fd, off_t from, off_t bytes) {
  using Function = int (*)(int, off_t, off_t);
  ++allocating;
  while (held) usleep(1000);
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, "posix_fallocate"))(fd, from, bytes);
}
[[gnu::visibility("default")]] int posix_fallocate64(int fd, off64_t from, off64_t bytes) {
  return posix_fallocate(fd, from, bytes);
}
}

namespace {

template <class Body>
int InChild(Body body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Files that a process has left in the run directory, under whatever name.
int FilesOf(pid_t pid) {
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(RunDirectory()))
    files += entry.path().filename().string().find("." + std::to_string(pid) + ".") != std::string::npos;
  return files;
}

void Call() { ncclCommAbort(nullptr); }

// False if no box is being made at all: better a failed test than one that never ends.
bool Reaches(int wanted) {
  for (int i = 0; i < 20'000 && allocating != wanted; ++i) usleep(1000);
  return allocating == wanted;
}

int CallsWhileTheBoxIsMade() {
  held = true;
  const int before = allocating;
  std::thread first(Call);
  if (!Reaches(before + 1)) _exit(9);
  std::thread second(Call);
  second.join();  // it waited, and gave up
  held = false;
  first.join();
  if (FilesOf(getpid()) != 0) return 1;
  const int made = allocating;
  Call();
  if (allocating != made) return 2;
  return FilesOf(getpid()) != 0 ? 3 : 0;
}

// A call that nobody records shifts the positions of all later ones: such a process must not be compared.
TEST(ShimFirstUse, AProcessWithAnUnrecordedCallIsNotWatchedAtAll) {
  ncclwatch::shim_test::ExpectSaid([] { return InChild(CallsWhileTheBoxIsMade) == 0; }, "not watching");
}

TEST(ShimFirstUse, ThreadsWaitForTheOneThatMakesTheBox) {
  const int wrong = InChild([] {
    held = true;
    const int before = allocating;
    std::thread first(Call);
    if (!Reaches(before + 1)) _exit(9);
    std::thread second(Call);
    held = false;
    first.join();
    second.join();
    return ncclwatch::shim_test::OwnBox().head() == 2 ? 0 : 1;
  });
  EXPECT_EQ(wrong, 0);
}

TEST(ShimFirstUse, TheLibraryOfTheFirstCommunicatorIsNamed) {
  const int wrong = InChild([] {
    Call();
    const ncclwatch::shim_test::OwnBox box;
    if (box.header().nccl_version != 22809) return 1;
    void* second = dlopen(SHIM_SECOND_NCCL, RTLD_NOW | RTLD_LOCAL);
    if (!second) return 2;
    auto* init = reinterpret_cast<decltype(&ncclCommInitRank)>(dlsym(second, "ncclCommInitRank"));
    ncclComm_t comm = nullptr;
    if (init(&comm, 2, ncclUniqueId{}, 1) != ncclSuccess || box.header().nccl_version != 21805) return 3;
    const char* strings = reinterpret_cast<const char*>(&box.header()) + box.header().strings.offset;
    if (!std::string(strings + box.header().nccl_library).ends_with("libsecond.so.2")) return 4;
    ncclwatch::shim_test::MakeComm();
    return box.header().nccl_version != 21805 ? 5 : 0;
  });
  EXPECT_EQ(wrong, 0);
}

}  // namespace
