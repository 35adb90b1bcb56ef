#include "watchdog/watch/process/ending.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <string>
#include <string_view>

#include "watchdog/act/thread.h"

namespace ncclwatch::watch {
namespace {

constexpr int kBusy = -1;

// The verdict's first line, and where the rest of it is.
std::string WhyEnded(const descriptors::Directory& directory) {
  constexpr char kFile[] = "diagnosis.txt";
  char text[256];
  const int fd = directory.Open(kFile, O_RDONLY);
  const ssize_t bytes = fd < 0 ? 0 : read(fd, text, sizeof text);
  if (fd >= 0) close(fd);
  if (bytes <= 0) return {};
  const std::string_view begin(text, static_cast<std::size_t>(bytes));
  return fmt::format("ncclwatch ended this job: {}; see {}", begin.substr(0, begin.find('\n')),
                     directory.PathOf(kFile));
}

}  // namespace

bool Ending::Due(std::int64_t now_ns) {
  if (!abort_) return true;
  if (!aborted_) {
    began_ns_ = now_ns;
    aborted_ = std::make_shared<std::atomic<int>>(kBusy);
    const bool started =
        act::StartThread("ncclwatch-abort", [abort = abort_, directory = directory_, aborted = aborted_] {
          aborted->store(abort(WhyEnded(directory).c_str()), std::memory_order_release);
        });
    if (!started) aborted_->store(0, std::memory_order_release);
  }
  const int aborted = aborted_->load(std::memory_order_acquire);
  if (aborted == kBusy) return now_ns - began_ns_ >= kAbortAtMost_ns;
  if (aborted == 0) return true;  // nobody was woken
  if (aborted_ns_ == 0) aborted_ns_ = now_ns;
  return now_ns - aborted_ns_ >= kGrace_ns;
}

}  // namespace ncclwatch::watch
