// Loads, uses and really unloads two builds of a libnccl in turn, and asks for functions that neither has.
#include <dlfcn.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <initializer_list>

namespace {

struct UniqueId {
  char internal[128];
};

void Check(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "unload: %s: %s\n", what, dlerror());
  std::exit(99);
}

template <typename F>
F Get(void* handle, const char* name) {
  void* found = dlsym(handle, name);
  Check(found, name);
  return reinterpret_cast<F>(found);
}

void Use(const char* path, int round) {
  void* handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  Check(handle, path);
  int version = 0;
  Get<int (*)(int*)>(handle, "ncclGetVersion")(&version);
  UniqueId id{};
  Get<int (*)(UniqueId*)>(handle, "ncclGetUniqueId")(&id);
  void* communicator = nullptr;
  Check(Get<int (*)(void**, int, UniqueId, int)>(handle, "ncclCommInitRank")(&communicator, 1, id, 0) == 0, "init");
  int in = 17 + round, out = 0;
  using AllReduce = int (*)(const void*, void*, std::size_t, int, int, void*, void*);
  Check(Get<AllReduce>(handle, "ncclAllReduce")(&in, &out, 1, 2, 0, communicator, nullptr) == 0, "all-reduce");
  Check(out == in, "the result");
  std::printf("version %d", version);
  for (const char* name : {"ncclCommSplit", "ncclMemAlloc", "ncclCommRevoke", "ncclNoSuchFunction", "pncclAllReduce"})
    std::printf(" %s %s", name, dlsym(handle, name) ? "there" : "missing");
  std::printf(" default ncclCommSplit %s", dlsym(RTLD_DEFAULT, "ncclCommSplit") ? "there" : "missing");
  Check(Get<int (*)(void*)>(handle, "ncclCommDestroy")(communicator) == 0, "destroy");
  Check(dlclose(handle) == 0, "dlclose");
  std::printf("\n");
  // Not compared: a watcher may keep a library from going away under its feet.
  std::fprintf(stderr, "%s\n", dlopen(path, RTLD_NOW | RTLD_NOLOAD) ? "stays" : "unloaded");
}

}  // namespace

int main(int argc, char** argv) {
  Check(argc == 3, "two paths are needed");
  for (int round = 0; round < 6; ++round) {
    Use(argv[1 + round % 2], round);
    // Whatever lay where the library was is something else now.
    Check(mmap(nullptr, std::size_t{64} << 10, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED, "mmap");
  }
  return 0;
}
