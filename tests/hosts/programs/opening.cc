// One thread sits in a constructor, with the loader's lock, and asks for NCCL; another makes its first call of it.
#include <dlfcn.h>

#include <atomic>
#include <thread>

#include "host.h"

[[gnu::visibility("default")]] std::atomic<int> host_in_constructor{0}, host_has_called{0};

int main(int, char** arguments) {
  std::thread opener([&] { CHECK(dlopen(arguments[1], RTLD_NOW)); });
  host_in_constructor.wait(0);
  std::thread waker([] {
    usleep(200'000);  // the first call is on its way by then, and may be waiting for the loader
    host_has_called = 1;
    host_has_called.notify_all();
  });
  int version = 0;
  NCCL(ncclGetVersion(&version));
  opener.join();
  waker.join();
  CHECK(host_in_constructor == 2);
  std::printf("NCCL %d\n", version);
}
