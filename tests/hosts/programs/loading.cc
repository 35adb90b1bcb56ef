// libnccl found at run time: dlopen(RTLD_LOCAL), dlsym on the handle, dlclose, once more; two copies in one process.
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <nccl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#define CHECK(condition)                                                                                \
  do {                                                                                                  \
    if (!(condition)) {                                                                                 \
      std::fprintf(stderr, "%s:%d: %s does not hold: %s\n", __FILE__, __LINE__, #condition, dlerror()); \
      _exit(99);                                                                                        \
    }                                                                                                   \
  } while (0)

namespace {

struct Library {
  void* handle;
  decltype(&ncclGetUniqueId) get_unique_id;
  decltype(&ncclCommInitRank) init;
  decltype(&ncclAllReduce) all_reduce;
  decltype(&ncclCommDestroy) destroy;
  decltype(&ncclGetVersion) version;
};

template <typename F>
void Get(void* handle, const char* name, F* function) {
  *function = reinterpret_cast<F>(dlsym(handle, name));
  CHECK(*function);
}

Library Load(const char* path, int flags) {
  Library library{};
  library.handle = dlopen(path, flags);
  CHECK(library.handle);
  Get(library.handle, "ncclGetUniqueId", &library.get_unique_id);
  Get(library.handle, "ncclCommInitRank", &library.init);
  Get(library.handle, "ncclAllReduce", &library.all_reduce);
  Get(library.handle, "ncclCommDestroy", &library.destroy);
  Get(library.handle, "ncclGetVersion", &library.version);
  return library;
}

ncclComm_t Communicator(const Library& library) {
  ncclUniqueId id;
  CHECK(library.get_unique_id(&id) == ncclSuccess);
  ncclComm_t communicator = nullptr;
  CHECK(library.init(&communicator, 1, id, 0) == ncclSuccess);
  return communicator;
}

void AllReduce(const Library& library, ncclComm_t communicator, std::size_t count) {
  std::vector<int> values(count, 5);
  int* device = nullptr;
  CHECK(cudaMalloc(reinterpret_cast<void**>(&device), count * sizeof(int)) == cudaSuccess);
  CHECK(cudaMemcpy(device, values.data(), count * sizeof(int), cudaMemcpyHostToDevice) == cudaSuccess);
  CHECK(library.all_reduce(device, device, count, ncclInt32, ncclSum, communicator, nullptr) == ncclSuccess);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(cudaMemcpy(values.data(), device, count * sizeof(int), cudaMemcpyDeviceToHost) == cudaSuccess);
  for (int value : values) CHECK(value == 5);
  cudaFree(device);
}

// Functions that the real library lacks must stay missing: frameworks probe for features that way. dlsym's other
// answers, and its error text, must stay what they were.
void Probe(const Library& library) {
  dlerror();
  CHECK(dlsym(library.handle, "ncclNoSuchFunction") == nullptr && dlerror() != nullptr);
  CHECK(dlsym(library.handle, "ncclNoSuchFunction") == nullptr);
  CHECK(std::strstr(dlerror(), "ncclNoSuchFunction"));
  CHECK(dlsym(RTLD_DEFAULT, "malloc") != nullptr && dlsym(RTLD_NEXT, "free") != nullptr);
  CHECK(dlerror() == nullptr);
  using Strlen = std::size_t (*)(const char*);
  CHECK(reinterpret_cast<Strlen>(dlsym(RTLD_DEFAULT, "strlen"))("four") == 4);
}

// What the global scope shows of a libnccl that is not there, there for its opener only, there for everybody.
void Scope(const char* path) {
  const auto say = [path](const char* when) {
    void* const everywhere = dlopen(nullptr, RTLD_LAZY);
    void* const loaded = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    dlerror();
    void* const found = dlsym(RTLD_DEFAULT, "ncclAllReduce");
    const bool error = dlerror() != nullptr;
    std::printf("%s: %s by default%s, %s in the program's handle, %s, libnccl %s\n", when, found ? "there" : "missing",
                error ? " with an error" : "", dlsym(everywhere, "ncclGetVersion") ? "there" : "missing",
                dlsym(RTLD_DEFAULT, "ncclNoSuchFunction") ? "there" : "missing", loaded ? "loaded" : "not loaded");
    if (loaded) dlclose(loaded);
    dlclose(everywhere);
  };
  say("at first");
  void* const local = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  CHECK(local && dlsym(local, "ncclAllReduce"));
  say("local");
  Library library = Load(path, RTLD_NOW | RTLD_GLOBAL);
  say("global");
  Get(RTLD_DEFAULT, "ncclAllReduce", &library.all_reduce);
  const ncclComm_t communicator = Communicator(library);
  AllReduce(library, communicator, 71);
  CHECK(library.destroy(communicator) == ncclSuccess);
}

}  // namespace

int main(int argc, char** argv) {
  CHECK(argc >= 3);
  const std::string mode = argv[1];
  CHECK(cudaSetDevice(0) == cudaSuccess);
  if (mode == "local") {
    const Library library = Load(argv[2], RTLD_NOW | RTLD_LOCAL);
    Probe(library);
    const ncclComm_t communicator = Communicator(library);
    AllReduce(library, communicator, 31);
    AllReduce(library, communicator, 32);
    CHECK(library.destroy(communicator) == ncclSuccess);
  } else if (mode == "reload") {
    for (int i = 0; i < 3; ++i) {
      const Library library = Load(argv[2], RTLD_LAZY | RTLD_LOCAL);
      const ncclComm_t communicator = Communicator(library);
      AllReduce(library, communicator, 31 + i);
      CHECK(library.destroy(communicator) == ncclSuccess);
      CHECK(dlclose(library.handle) == 0);
    }
  } else if (mode == "scope") {
    Scope(argv[2]);
  } else if (mode == "two") {
    CHECK(argc == 4);
    const Library one = Load(argv[2], RTLD_NOW | RTLD_LOCAL);
    const Library two = Load(argv[3], RTLD_NOW | RTLD_LOCAL);
    CHECK(one.handle != two.handle);
    const ncclComm_t first = Communicator(one);
    const ncclComm_t second = Communicator(two);
    for (int i = 0; i < 4; ++i) {
      AllReduce(one, first, 41 + i);
      AllReduce(two, second, 51 + i);
    }
    CHECK(two.destroy(second) == ncclSuccess);
    AllReduce(one, first, 61);
    CHECK(one.destroy(first) == ncclSuccess);
  }
  std::puts("done");
  return 0;
}
