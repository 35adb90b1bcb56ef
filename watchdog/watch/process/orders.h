// What whoever leads, `ncclwatch off`, or `ncclwatch on` wants of every process, as the lease's words say: to record or
// not, to write its own stacks, to end.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ncclwatch/format/black_box.h"
#include "ncclwatch/format/lease.h"
#include "watchdog/descriptors/directory.h"
#include "watchdog/watch/process/ending.h"

namespace ncclwatch::watch {

class Orders {
 public:
  // A sample of this process's own stacks (format/sample.h); in a thread of its own, as it may take a while. May be
  // null.
  using SampleStacks = std::string (*)();
  Orders(format::Header* own, descriptors::Directory directory, Ending::Abort abort, SampleStacks sample)
      : own_(own), directory_(std::move(directory)), ending_(abort, directory_), sample_(sample) {}

  // At every turn of the watchdog. others_left: this process leads the ending of the job and ends last.
  void ApplyCommands(format::Lease& words, bool others_left, std::int64_t now_ns);

 private:
  void WriteSample() const;

  format::Header* own_;
  descriptors::Directory directory_;
  Ending ending_;
  SampleStacks sample_;
  std::optional<std::uint64_t> sampled_;  // the newest order that has been seen
};

}  // namespace ncclwatch::watch
