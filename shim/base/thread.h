// What the library keeps per thread: small, and in the initial-exec model so that reaching it is one instruction and
// loading the library by dlopen still fits the reserve that glibc keeps.
#pragma once

#include <cstdint>

#include "shim/base/unwind_path.h"

namespace ncclwatch::shim {

struct Box;
struct Group;

struct Thread {
  // The outermost recorded call in progress: address of its wrapper's frame and the return address that lies in it.
  // An application may longjmp over a call, so that they are believed only while the stack still says the same.
  std::uintptr_t frame;
  std::uint64_t site;
  std::uint32_t function;  // functions::Function, of MPI alone

  const Box* box;              // that the rest speaks of: in a fork child another one
  Group* group;                // null outside groups, and if the pool was empty
  std::uint64_t group_id;      // slot + 1 of the outermost ncclGroupStart, 0 if it was not recorded
  std::uint32_t depth;         // of ncclGroupStart
  std::uint32_t id;            // kernel thread id
  std::uint64_t python_state;  // PyThreadState whose frames have once been looked at with care (python/lines.h)

  // Where kernels are timed (profiler/plugin.h): the call in progress, if its kernel shall be.
  std::uint64_t timed_slot;  // + 1 of its record, 0: it is not timed
  const void* timed_event;   // its first event; null: none yet
  Group* timed_group;        // what the outermost ncclGroupEnd in progress runs, null: there is none
};

// Whether the noted call is still in progress: an application that jumped out of a call leaves the note behind. Its
// return address must still lie in its frame, and the frames above the present one, as far as they can be told, must
// lead there. That stack may be gone altogether (a coroutine's): this asks the kernel first, unless that way has been
// gone before.
bool StillInCall(const Thread& thread, const Entrance& inner);

extern thread_local constinit Thread current_thread __attribute__((tls_model("initial-exec")));

}  // namespace ncclwatch::shim
