// Leaves a call in the middle by longjmp, from a signal handler and from inside the call; calls must work, and be
// recorded, afterwards.
#include <dlfcn.h>

#include <sys/time.h>
#include <csetjmp>
#include <csignal>

#include "host.h"

namespace {

sigjmp_buf back;

void Leave(int) { siglongjmp(back, 1); }
void LeaveCall() { siglongjmp(back, 2); }

}  // namespace

int main() {
  const ncclComm_t alone = host::Alone();
  host::AllReduce(alone, 91);

  // The chained preload of the test calls back from inside ncclAllReduce.
  using Arm = void (*)(void (*)());
  const Arm arm = reinterpret_cast<Arm>(dlsym(RTLD_DEFAULT, "chain_call_back"));
  int* device = nullptr;
  CUDA(cudaMalloc(reinterpret_cast<void**>(&device), 4));
  if (arm) {
    for (static int i = 0; i < 50; ++i) {  // static: a jump back leaves it alone
      if (sigsetjmp(back, 1) == 0) {
        arm(LeaveCall);
        NCCL(ncclAllReduce(device, device, 1, ncclInt32, ncclSum, alone, nullptr));
        CHECK(!"the call came back");
      }
      arm(nullptr);
    }
    // Out of a group, too: the group itself is still open in NCCL and is closed by the application.
    NCCL(ncclGroupStart());
    if (sigsetjmp(back, 1) == 0) {
      arm(LeaveCall);
      ncclAllReduce(device, device, 1, ncclInt32, ncclSum, alone, nullptr);
    }
    arm(nullptr);
    NCCL(ncclGroupEnd());
  }
  host::AllReduce(alone, 92);

  // The peer of this communicator never comes: the call blocks until the alarm.
  ncclUniqueId id;
  NCCL(ncclGetUniqueId(&id));
  std::signal(SIGALRM, Leave);
  if (sigsetjmp(back, 1) == 0) {
    const itimerval soon{{0, 0}, {0, 200000}};
    setitimer(ITIMER_REAL, &soon, nullptr);
    ncclComm_t never = nullptr;
    ncclCommInitRank(&never, 2, id, 0);
    CHECK(!"the call came back");
  }
  host::AllReduce(alone, 93);
  host::Say("done");
  _exit(6);  // the abandoned call may have left locks of the library below taken
}
