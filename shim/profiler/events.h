// Events of NCCL's profiler interface that are followed: those of calls whose kernel is timed. Of constant size and
// without locks; any thread may call anything here.
//
// NCCL keeps the handle of an event as long as it likes: children of an event begin after it was stopped. So a handle
// is no pointer but a number, which says by itself whether its entry still belongs to it. It is odd: handles of another
// plugin are pointers, and even.
#pragma once

#include <cstdint>

#include "ncclwatch/format/kernel_time.h"
#include "shim/black_box/box.h"

namespace ncclwatch::shim::profiler {

// What the user's own plugin knows of an event, where there is such a plugin.
struct Theirs {
  void* handle = nullptr;  // null: the plugin does not follow this event
  int mask = 0;            // of events that the plugin wanted then
};

inline bool IsFollowed(const void* handle) { return (reinterpret_cast<std::uintptr_t>(handle) & 1) != 0; }

// The first event of the call whose record is in `slot`. has_kernels: NCCL will tell of its kernel, too.
void* FollowCall(Box& box, std::uint64_t slot, bool has_kernels, const Theirs& theirs);
// A further event of the call that `handle` belongs to. Null: that one is not followed any more.
void* FollowPart(const void* handle, const Theirs& theirs);
// How NCCL runs the call.
void NoteWay(const void* handle, format::Algorithm algorithm, format::Protocol protocol);
// A channel of its kernel begins. timer: the GPU's, 0: there is none, this thread's clock is read instead.
void* FollowChannel(const void* handle, std::uint8_t channel, std::uint64_t timer, const Theirs& theirs);
// The channel ends; what is said first counts. When all that have begun have ended, the time goes into the record.
void EndChannel(const void* handle, std::uint64_t timer);

// False: not followed any more.
bool FindTheirs(const void* handle, Theirs* theirs);
// The user's plugin hears of an event's stop once, though NCCL stops some twice. Null: it does not hear of it.
void* TakeTheirStop(const void* handle);

}  // namespace ncclwatch::shim::profiler
