// NCCL's profiler interface from its other side: loads a plugin as NCCL does (NCCL_PROFILER_PLUGIN) and tells it of
// calls, of the work of groups and of the channels of kernels, in NCCL's order. Of proxies and networks there are no
// events: softgpu has neither.
//
// SOFTGPU_NCCL_PROFILER=N: versions up to N are asked for, as an older NCCL would (default: 6).
// SOFTGPU_NCCL_PROFILER_COST=us: a kernel of which the plugin is told takes so much longer.
// SOFTGPU_NCCL_PROFILER_LATE=N: the end of a channel is told when N more have ended, with the time at which it was.
#ifndef SOFTGPU_NCCL_PROFILER_TELL_H_
#define SOFTGPU_NCCL_PROFILER_TELL_H_

#include <cuda.h>

#include <cstddef>

struct ncclComm;

namespace softgpu {

struct Work;

namespace profiler {

// What the plugin said of one collective or message, from its call to the end of its kernel.
struct Task {
  int mask = 0;  // of the plugin when the call was made
  const char* function = "";
  size_t count = 0;
  int datatype = 0;
  int root = 0;  // or peer
  bool is_message = false;
  void* api = nullptr;  // handles of events
  void* event = nullptr;
  void* channels[2] = {};
};

// The communicator has been made, and is about to go.
void Init(ncclComm* comm);
void Finalize(ncclComm* comm);

// Around what a call adds to its group. `task` has its function and arguments.
void StartCall(ncclComm* comm, CUstream stream, Task* task);
void StopCall(Task* task);
// The outermost group of this thread is over.
void StopGroupCall();

// Around the launch of a group's work.
void StartWork(Work* work, void** group);
void StopWork(const Work& work, void* group);

// Around what a kernel does for one task, on the stream's thread.
void StartChannels(ncclComm* comm, Task* task);
void StopChannels(Task* task);

}  // namespace profiler
}  // namespace softgpu

#endif  // SOFTGPU_NCCL_PROFILER_TELL_H_
