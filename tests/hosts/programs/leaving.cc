// leaving child|self|mpi: a process, or its forked child, leaves by _exit() while another thread holds a lock of the
// dynamic loader's and does not give it back. It uses neither NCCL nor MPI.
#include <dlfcn.h>
#include <link.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <thread>

// Of libconstructor.so, which waits in its constructor for the second.
[[gnu::visibility("default")]] std::atomic<int> host_in_constructor{0}, host_has_called{0};

namespace {

std::atomic<bool> walking{false};

int Stay(dl_phdr_info*, std::size_t, void*) {
  walking = true;
  for (;;) pause();
}

void HoldTheListOfModules() {
  std::thread([] { dl_iterate_phdr(Stay, nullptr); }).detach();
  while (!walking) usleep(1000);
}

void HoldTheLoader(const char* constructor) {
  std::thread([constructor] { dlopen(constructor, RTLD_NOW); }).detach();
  host_in_constructor.wait(0);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 98;
  const char* const mode = argv[1];
  if (std::strcmp(mode, "mpi") == 0 && argc == 4) {
    void* const library = dlopen(argv[2], RTLD_NOW);
    if (!library) return 97;
    const auto ends = reinterpret_cast<void (*)()>(dlsym(library, "MPI_Ends"));
    HoldTheLoader(argv[3]);
    ends();
  }
  HoldTheListOfModules();
  if (std::strcmp(mode, "child") == 0) {
    const pid_t child = fork();
    if (child == 0) _exit(7);
    int status = 0;
    waitpid(child, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 96);
  }
  _exit(9);
}
