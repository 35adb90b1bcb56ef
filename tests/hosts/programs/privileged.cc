// privileged [LIBNCCL]: what a program finds that has the library in the place of libnccl, and opens LIBNCCL if named.
#include <dlfcn.h>
#include <sys/auxv.h>

#include "host.h"

int main(int argc, char** argv) {
  host::Say(getauxval(AT_SECURE) ? "with more rights" : "with the same rights");
  if (argc > 1) CHECK(dlopen(argv[1], RTLD_NOW | RTLD_LOCAL));
  int version = 0;
  const bool there = ncclGetVersion(&version) == ncclSuccess;
  host::Say(there ? "NCCL " + std::to_string(version) : "no NCCL");
  if (argc > 1) {
    host::AllReduce(host::Alone(), 151);
    host::Say("done");
  }
  return 0;
}
