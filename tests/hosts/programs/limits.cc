// Hostile surroundings: descriptors closed under us or used up, little address space.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>

#include "host.h"

namespace {

// What the watchdog has used of a processor so far, 0 without one.
std::int64_t WatchdogTime_ns() {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::ifstream(task.path() / "comm") >> name;
    std::int64_t used = 0;
    std::ifstream(task.path() / "schedstat") >> used;
    if (name == "ncclwatch") return used;
  }
  return 0;
}

// Between opening a file at a low number and closing that number, having moved it, the watchdog cannot notice that the
// program has taken the number over. It opens files when it begins; at rest it opens none.
void AwaitRestOfWatchdog() {
  for (int quiet = 0; quiet < 10;) {
    const std::int64_t before = WatchdogTime_ns();
    usleep(20000);
    quiet = WatchdogTime_ns() - before < 1'000'000 ? quiet + 1 : 0;
  }
}

// A daemon's habit. What is opened afterwards takes the numbers over and must keep its content.
void CloseAll() {
  const ncclComm_t world = host::World();
  host::AllReduce(world, 111);
  AwaitRestOfWatchdog();
  syscall(SYS_close_range, 3u, ~0u, 0u);
  const std::string base = std::string(std::getenv("HOST_ID_DIR")) + "/mine." + std::to_string(host::Rank()) + ".";
  std::vector<int> files;
  for (int i = 0; i < 40; ++i) files.push_back(open((base + std::to_string(i)).c_str(), O_RDWR | O_CREAT, 0600));
  for (int fd : files) CHECK(fd >= 0 && write(fd, "mine", 4) == 4);
  const std::int64_t before = WatchdogTime_ns();
  for (int i = 0; i < 20; ++i) {
    host::AllReduce(world, 112);
    usleep(20000);  // the watchdog's turn: several beats
  }
  // Regular files are always readable: who takes them for descriptors of its own never rests.
  CHECK(WatchdogTime_ns() - before < 100'000'000);
  NCCL(ncclCommDestroy(world));
  for (int fd : files) {
    char text[8] = {};
    CHECK(pread(fd, text, sizeof text, 0) == 4 && std::string(text) == "mine");
    CHECK(fcntl(fd, F_GETFD) != -1);
    close(fd);
  }
}

long AddressSpaceKiB() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmSize:")) return std::atol(line.c_str() + 7);
  return 0;
}

void Calls() {
  const ncclComm_t communicator = host::Alone();
  for (int i = 0; i < 5; ++i) host::AllReduce(communicator, 113);
  NCCL(ncclCommDestroy(communicator));
}

// All descriptors but `left` are taken when the first communicator is made.
void FewFiles(int left) {
  CUDA(cudaFree(nullptr));
  const rlimit limit{256, 256};
  CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  std::vector<int> taken;
  for (int fd; (fd = open("/dev/null", O_RDONLY)) >= 0;) taken.push_back(fd);
  CHECK(errno == EMFILE);
  for (int i = 0; i < left; ++i, taken.pop_back()) close(taken.back());
  Calls();
}

// A first communicator may be made while descriptors are plenty; later none is left at all.
void NoFilesLater() {
  const ncclComm_t communicator = host::Alone();
  host::AllReduce(communicator, 114);
  const rlimit limit{256, 256};
  CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  while (open("/dev/null", O_RDONLY) >= 0) {
  }
  CHECK(errno == EMFILE);
  for (int i = 0; i < 20; ++i) {
    host::AllReduce(communicator, 115);
    usleep(20000);
  }
}

void LittleSpace(int kib) {
  CUDA(cudaFree(nullptr));
  const rlim_t bytes = static_cast<rlim_t>(AddressSpaceKiB() + kib) * 1024;
  const rlimit limit{bytes, bytes};
  CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
  Calls();
}

}  // namespace

int main(int argc, char** argv) {
  CHECK(argc == 3);
  const std::string mode = argv[1];
  const int amount = std::atoi(argv[2]);
  if (mode == "close_all") CloseAll();
  if (mode == "few_files") FewFiles(amount);
  if (mode == "no_files_later") NoFilesLater();
  if (mode == "little_space") LittleSpace(amount);
  if (mode == "calls") Calls();
  host::Say("done");
  return 0;
}
