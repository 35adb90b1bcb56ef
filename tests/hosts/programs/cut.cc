// Somebody else does something to the files of the run directory while the job runs: cut MODE. Without a run directory
// nothing is done, and the program is the same.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <csignal>

#include "host.h"

namespace {

std::string directory;

std::vector<std::string> Files(const std::string& part, const std::string& end) {
  std::vector<std::string> found;
  DIR* listing = directory.empty() ? nullptr : opendir(directory.c_str());
  if (!listing) return found;
  while (const dirent* entry = readdir(listing)) {
    const std::string name = entry->d_name;
    const bool ends = name.size() >= end.size() && name.compare(name.size() - end.size(), end.size(), end) == 0;
    if (ends && name.find(part) != std::string::npos) found.push_back(directory + "/" + name);
  }
  closedir(listing);
  return found;
}

// In a child: this process must not open and close a file that it holds a lock on.
template <class Body>
void InAChild(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(0);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
}

void Cut(const std::vector<std::string>& files) {
  InAChild([&] {
    for (const std::string& file : files) CHECK(truncate(file.c_str(), 0) == 0);
  });
}

// Takes the pages away from under the box, and all room there is: the next write finds none, though the file is as long
// as ever. So does a copy-on-write file system that is full.
void TakeTheRoom(const std::vector<std::string>& files) {
  if (files.empty()) return;
  InAChild([&] {
    for (const std::string& file : files) {
      const int box = open(file.c_str(), O_RDWR);
      struct stat info {};
      CHECK(box >= 0 && fstat(box, &info) == 0);
      CHECK(fallocate(box, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, info.st_size) == 0);
    }
    const int filler = open((directory + "/filler").c_str(), O_RDWR | O_CREAT, 0600);
    static char block[65536];
    while (write(filler, block, sizeof block) > 0) {
    }
    while (write(filler, block, 4096) > 0) {
    }
  });
}

}  // namespace

int main(int argc, char** argv) {
  CHECK(argc == 2);
  const std::string mode = argv[1];
  if (const char* place = std::getenv("NCCLWATCH_DIR")) directory = place;
  const ncclComm_t world = host::World();
  for (int i = 0; i < 20; ++i) host::AllReduce(world, 51);
  usleep(300'000);  // the watchdogs have found one another
  const std::string own = "." + std::to_string(getpid()) + ".";
  if (mode == "own" || mode == "crash") Cut(Files(own, ".box"));
  if (mode == "lease" && host::Rank() == 0) Cut(Files("lease", "lease"));
  if (mode == "all" && host::Rank() == 0) Cut(Files("", ".box"));
  if (mode == "full") TakeTheRoom(Files(own, ".box"));
  for (int i = 0; i < 60; ++i) {
    host::AllReduce(world, 52);
    usleep(10'000);
  }
  host::Say("went on");
  if (mode == "crash") raise(SIGSEGV);
  NCCL(ncclCommDestroy(world));
  return 44;
}
