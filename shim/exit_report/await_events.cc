#include "shim/exit_report/await_events.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "ncclwatch/format/event.h"
#include "shim/base/keep_errno.h"
#include "shim/base/process.h"
#include "shim/black_box/box.h"

namespace ncclwatch::shim {

void AwaitEvents() {
  constexpr int kPatience_ms = 150;
  const Box* const box = CurrentBox();
  // A child by vfork() shares this memory.
  if (!box || static_cast<std::uint32_t>(syscall(SYS_getpid)) != box->pid) return;
  const KeepErrno keep;
  const format::Events* const events = format::OwnEvents(box->header);
  const auto waits = [events] {
    return events && events->written.load(std::memory_order_acquire) < events->made.load(std::memory_order_relaxed);
  };
  const timespec moment{0, 1'000'000};
  for (int i = 0; i < kPatience_ms && waits(); ++i) nanosleep(&moment, nullptr);
}

}  // namespace ncclwatch::shim
