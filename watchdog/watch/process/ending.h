// How one process ends when the job is being ended (NCCLWATCH_ON_FAULT=abort): its communicators first, in a thread of
// their own since that can hang, so that the application's blocked calls come back with NCCL's error and it can end
// itself as it does after any such error. What has not ended by then is ended with status 86.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "watchdog/descriptors/directory.h"

namespace ncclwatch::watch {

class Ending {
 public:
  static constexpr std::int64_t kAbortAtMost_ns = 3'000'000'000;  // for the communicators
  static constexpr std::int64_t kGrace_ns = 2'000'000'000;        // for the application, once they are gone
  // By then a process that can has ended.
  static constexpr std::int64_t kAtMost_ns = kAbortAtMost_ns + kGrace_ns + 1'000'000'000;

  // Ends the process's communicators and says how many there were. May be null: there is nothing to end.
  // `why`, one line, is what the application may ask NCCL for.
  using Abort = int (*)(const char* why);
  Ending(Abort abort, descriptors::Directory directory) : abort_(abort), directory_(std::move(directory)) {}

  // Begins it at the first call. True once the time of this process is up.
  bool Due(std::int64_t now_ns);

 private:
  Abort abort_;
  descriptors::Directory directory_;
  std::int64_t began_ns_ = 0;
  std::int64_t aborted_ns_ = 0;                // since when they are gone
  std::shared_ptr<std::atomic<int>> aborted_;  // how many, kBusy before that is known
};

}  // namespace ncclwatch::watch
