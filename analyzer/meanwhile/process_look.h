// One process that is looked at several times, from outside: no thread of it is stopped and nothing of it is touched.
// What is learnt of its files at the first look makes the later ones quick. Not thread-safe.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "analyzer/meanwhile/doing.h"
#include "analyzer/stacks/base/memory.h"
#include "analyzer/stacks/base/modules.h"
#include "analyzer/stacks/names/name_frames.h"
#include "analyzer/stacks/threads/proc_thread.h"
#include "watchdog/reader/beside/meanwhile.h"

namespace ncclwatch::meanwhile {

class ProcessLook {
 public:
  // tid: the thread that is looked at. Both caches outlive this.
  ProcessLook(int pid, int tid, stacks::FileCache* files, stacks::NameCache* names);

  struct Look {
    reader::MeanwhileSample sample;
    bool waits_for_others = false;  // in no call on what has a name, and not running
  };
  // None: it is gone, or may not be looked at.
  std::optional<Look> Take() { return Take(tid_); }
  // Where the thread waits for another one of its process that reads or writes, the sample becomes that one's; where it
  // waits in its data loader, the words tell what the processes do that it has started.
  void FollowWait(Look* look);

 private:
  stacks::Thread ThreadNow(int tid) const;
  std::optional<Look> Take(int tid);
  void FollowThreads(reader::MeanwhileSample* sample);
  void FollowChildren(reader::MeanwhileSample* sample);

  int pid_, tid_;
  stacks::FileCache* files_;
  stacks::NameCache* names_;
  stacks::Memory memory_;
  stacks::Modules modules_;
  std::map<int, std::unique_ptr<ProcessLook>> children_;
};

}  // namespace ncclwatch::meanwhile
