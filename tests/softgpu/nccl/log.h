// softgpu's own account of the calls that a program makes, to hold other tools' records against.
//
// With SOFTGPU_NCCL_LOG=DIR every process appends to DIR/<pid>.jsonl, one write(2) a line, so that nothing written is
// lost by kill -9. One line per call of the application; calls that the library makes to its own exported functions
// are left out. Calls that may block for long (creating, finalizing, destroying, aborting a communicator, ncclGroupEnd)
// have a line at entry too.
//
//   {"event":"call","n":12,"tid":4711,"t0":...,"t1":...,"fn":"ncclAllReduce","comm":"8f3c09d2a1b45e77","index":0,
//    "handle":"0x55..","rank":1,"nranks":4,"count":4096,"dtype":7,"red":0,"root":null,"peer":null,"stream":"0x..",
//    "send":"0x..","recv":"0x..","depth":0,"result":0}
//
// With SOFTGPU_NCCL_LOG_KERNELS also one line for each collective or message when its kernel has run, on the stream's thread: "event":"kernel", fn,
// comm, rank, nranks, count, dtype, root (or peer), and t0 and t1, at its beginning and end.
//
//   event   "call" when it returned; "enter" for the extra line, which has neither t1 nor result
//   n       order of entry into calls in this process, from 0; lines of several threads may be out of this order
//   tid     thread id;  t0, t1  CLOCK_MONOTONIC nanoseconds at entry and return
//   comm    64 bits of the communicator's identity in hex, equal on all its ranks; null where there is none (yet)
//   index   order of creation of the communicator in this process, from 0
//   count, dtype, red   as passed (NCCL's numbers; red of a user-made reduction is its handle); null where not
//   applicable root, peer          root of a rooted collective; peer of ncclSend and ncclRecv; null otherwise send,
//   recv          buffers; null where not applicable depth   ncclGroupStart calls that were open in this thread when
//   the call was made result  ncclResult_t; null for functions that do not return one extra   object with what only
//   this function has (color, key, code...), or absent
#ifndef SOFTGPU_NCCL_LOG_H_
#define SOFTGPU_NCCL_LOG_H_

#include <cstdint>
#include <string>

#include "nccl_header.h"
#include "profiler/tell.h"

namespace softgpu {

// Lives as long as one API call. Cheap where no log is wanted.
class ApiCall {
 public:
  explicit ApiCall(const char* function);
  ~ApiCall();
  ApiCall(const ApiCall&) = delete;
  ApiCall& operator=(const ApiCall&) = delete;

  ApiCall& Comm(ncclComm* comm);
  ApiCall& Data(size_t count, int datatype, const void* send, const void* receive);
  ApiCall& Red(int op);
  ApiCall& Root(int root);
  ApiCall& Peer(int peer);
  ApiCall& Stream(const void* stream);
  ApiCall& Extra(const char* key, int64_t value);

  // Writes the line at entry; for calls that may never return.
  ApiCall& Enter();
  ncclResult_t Done(ncclResult_t result);
  void DoneWithoutResult();

 private:
  void Add(const char* key, int64_t value);
  void AddPointer(const char* key, const void* value);
  void Write(const char* event, const char* tail);

  bool logged_ = false;
  uint64_t number_ = 0;
  uint64_t entered_ = 0;
  int depth_ = 0;
  const char* function_;
  std::string comm_;
  std::string fields_;
  std::string extra_;
};

// What one kernel does for one task, from its making on.
class KernelLine {
 public:
  KernelLine();
  void Write(const ncclComm& comm, const profiler::Task& task) const;

 private:
  uint64_t began_ = 0;
};

}  // namespace softgpu

#endif  // SOFTGPU_NCCL_LOG_H_
