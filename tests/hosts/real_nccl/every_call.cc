// Calls every function of nccl.h, each in a child of its own: once with all arguments zero, and some with arguments
// that mean something. What it prints must not depend on anything preloaded.
#include <nccl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>

// An older library may lack what the header declares.
// NOLINTNEXTLINE(bugprone-macro-parentheses): a name that is declared takes none
#define EVERY(name) extern "C" decltype(name) name __attribute__((weak));
#include "every_function.inc"
#undef EVERY

namespace {

constexpr unsigned kDeadlineSeconds = 30;

void InChild(const char* name, const std::function<void()>& body) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    alarm(kDeadlineSeconds);
    std::printf("%s:", name);
    body();
    std::fputs("\n", stdout);
    std::fflush(stdout);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) std::printf("%s: ended by signal %d\n", name, WTERMSIG(status));
}

void Show(ncclResult_t result) { std::printf(" %d", result); }
void Show(const char* text) { std::printf(" \"%s\"", text ? text : "(null)"); }

template <typename Result, typename... Arguments>
void WithZeroes(const char* name, Result (*function)(Arguments...)) {
  if (!function) {
    std::printf("%s: missing\n", name);
    return;
  }
  InChild(name, [function] {
    if constexpr (std::is_void_v<Result>)
      function(Arguments{}...);
    else
      Show(function(Arguments{}...));
  });
}

ncclUniqueId Id() {
  ncclUniqueId id{};
  Show(ncclGetUniqueId(&id));
  return id;
}

void Version() {
  int version = 0;
  Show(ncclGetVersion(&version));
  std::printf(" %d", version);
}

void ErrorStrings() {
  for (int i = -1; i < 12; ++i) Show(ncclGetErrorString(static_cast<ncclResult_t>(i)));
}

void UniqueIds() {
  for (int i = 0; i < 3; ++i) {
    const ncclUniqueId id = Id();
    bool any = false;
    for (const char byte : id.internal) any = any || byte;
    Show(any ? "filled" : "zero");
  }
}

void After(ncclComm_t communicator) {
  Show(communicator ? "made" : "null");
  float value = 0;
  Show(ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, communicator, nullptr));
  Show(ncclSend(&value, 1, ncclFloat32, 0, communicator, nullptr));
  int number = 0;
  Show(ncclCommCount(communicator, &number));
  if (communicator) Show(ncclCommDestroy(communicator));
}

void InitRank(int ranks, int rank) {
  ncclComm_t communicator = nullptr;
  Show(ncclCommInitRank(&communicator, ranks, Id(), rank));
  After(communicator);
}

void InitConfig(int blocking) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = blocking;
  ncclComm_t communicator = nullptr;
  const ncclUniqueId id = Id();
  ncclResult_t state = ncclCommInitRankConfig(&communicator, 1, id, 0, &config);
  while (communicator && state == ncclInProgress && ncclCommGetAsyncError(communicator, &state) == ncclSuccess)
    usleep(1000);
  Show(state);
  if (blocking || !communicator) After(communicator);
}

void InitScalable() {
  ncclUniqueId id = Id();
  ncclComm_t communicator = nullptr;
  Show(ncclCommInitRankScalable(&communicator, 1, 0, 1, &id, nullptr));
  After(communicator);
}

void InitAll() {
  ncclComm_t communicator = nullptr;
  Show(ncclCommInitAll(&communicator, 1, nullptr));
  Show(communicator ? "made" : "null");
}

void InitInGroup() {
  ncclComm_t communicator = nullptr;
  const ncclUniqueId id = Id();
  Show(ncclGroupStart());
  Show(ncclCommInitRank(&communicator, 1, id, 0));
  Show(ncclGroupEnd());
  After(communicator);
}

void Groups() {
  Show(ncclGroupStart());
  Show(ncclGroupStart());
  Show(ncclGroupEnd());
  Show(ncclGroupEnd());
  Show(ncclGroupEnd());
  Show(ncclGroupStart());
  Show(ncclGroupEnd());
}

void FailedGroup() {
  float value = 0;
  Show(ncclGroupStart());
  Show(ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, nullptr, nullptr));
  Show(ncclGroupEnd());
  Show(ncclGetLastError(nullptr));
}

void Memory() {
  void* memory = nullptr;
  const ncclResult_t result = ncclMemAlloc(&memory, 1 << 20);
  Show(result);
  Show(memory ? "memory" : "none");
  if (memory) Show(ncclMemFree(memory));
}

void TwoThousandErrors() {
  int other = 0;
  for (int i = 0; i < 2000; ++i) other += ncclCommDestroy(nullptr) != ncclCommDestroy(nullptr);
  std::printf(" %d", other);
}

}  // namespace

int main() {
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
#define EVERY(name) WithZeroes(#name, &(name));
#include "every_function.inc"
#undef EVERY
  InChild("version", Version);
  InChild("error strings", ErrorStrings);
  InChild("unique ids", UniqueIds);
  InChild("one rank", [] { InitRank(1, 0); });
  InChild("no ranks", [] { InitRank(0, 0); });
  InChild("rank below zero", [] { InitRank(2, -1); });
  InChild("rank out of range", [] { InitRank(2, 2); });
  InChild("config", [] { InitConfig(1); });
  InChild("non-blocking", [] { InitConfig(0); });
  InChild("scalable", InitScalable);
  InChild("init all", InitAll);
  InChild("init in a group", InitInGroup);
  InChild("groups", Groups);
  InChild("failed group", FailedGroup);
  InChild("memory", Memory);
  InChild("errors", TwoThousandErrors);
  std::puts("end");
  return 3;
}
