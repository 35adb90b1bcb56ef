// A library whose constructor asks for NCCL while another thread calls it for the first time: see opening.cc.
#include <dlfcn.h>

#include <atomic>

extern std::atomic<int> host_in_constructor, host_has_called;

namespace {

[[gnu::constructor]] void Ask() {
  host_in_constructor = 1;
  host_in_constructor.notify_all();
  host_has_called.wait(0);
  host_in_constructor = dlsym(RTLD_DEFAULT, "ncclAllReduce") ? 2 : 3;
}

}  // namespace
