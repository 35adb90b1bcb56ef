// The stacks of every thread of one process.
#pragma once

#include "analyzer/stacks/base/stack.h"
#include "analyzer/stacks/names/name_frames.h"
#include "analyzer/stacks/threads/snapshot.h"

namespace ncclwatch::stacks {

struct ReadOptions {
  bool stop = true;  // false: touch nothing; stacks of running threads are missing
  Moment deadline = Moment::max();
};

struct ThreadsRead {
  std::vector<Thread> threads;  // by tid
  std::vector<InCall> calls;    // of each
  std::string trouble;          // why the process as a whole cannot be read, empty if it can
};

// `seen`: of the process's threads, by tid, as they were a moment ago: names, states and wait channels.
ThreadsRead ReadThreads(Memory* memory, Modules* modules, NameCache* names, const std::vector<Thread>& seen,
                        const ReadOptions& options);
// With a look at /proc first.
std::vector<Thread> LookAtThreads(int pid);

}  // namespace ncclwatch::stacks
