// A library to be deleted while somebody waits inside it.
#include <unistd.h>

#include <cstdio>

namespace {
[[gnu::noinline]] void Wait() {
  std::printf("ready %d\n", getpid());
  std::fflush(stdout);
  char byte = 0;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
}
}  // namespace

extern "C" [[gnu::visibility("default")]] void WaitInsideLibrary() {
  Wait();
  asm volatile("" ::: "memory");
}
