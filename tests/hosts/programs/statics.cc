// NCCL in constructors and destructors of static objects, of the program and of thread-local ones.
#include <thread>

#include "host.h"

namespace {

struct Static {
  Static() : communicator(host::Alone()) {
    host::AllReduce(communicator, 71);
    host::Say("constructor");
  }
  ~Static() {
    host::AllReduce(communicator, 72);
    NCCL(ncclCommDestroy(communicator));
    host::Say("destructor");
  }
  ncclComm_t communicator;
};

struct ThreadLocal {
  ~ThreadLocal() {
    if (communicator) NCCL(ncclCommDestroy(communicator));
  }
  ncclComm_t communicator = nullptr;
};

Static before_main;
thread_local ThreadLocal of_thread;

}  // namespace

int main() {
  std::thread([] {
    of_thread.communicator = host::Alone();
    host::AllReduce(of_thread.communicator, 73);
  }).join();
  host::AllReduce(before_main.communicator, 74);
  return 5;
}
