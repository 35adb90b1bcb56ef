// How long the kernels of NCCL's calls run, from NCCL itself: this library as a plugin of its profiler interface.
//
// NCCL finds the plugin in a library that is offered to it (offer.h), or by dlsym, which this library answers: it is
// the plugin where NCCL asks the process for one (NCCL_PROFILER_PLUGIN=STATIC_PLUGIN) and there is none, and with
// NCCLWATCH_PROFILER=1/N it comes before the one that the user has set, which hears of all that it asks for. Of every
// communicator and pair of peers one call in N is timed, the same one on all ranks; NCCL is asked for nothing else.
#pragma once

#include <cstdint>
#include <string_view>

#include "shim/base/thread.h"
#include "shim/black_box/call.h"

namespace ncclwatch::shim::profiler {

inline constexpr std::string_view kSymbol = "ncclProfiler_v";

// dlsym's answer for a name that begins so; real: what the handle itself has under it.
void* Answer(void* handle, const char* name, void* real);
// Into the library that is offered: the plugins under the names by which NCCL asks it for them.
void FillIn(void* offered);

// A call was recorded as entered and is about to be passed on: NCCL shall time it, or not.
void Aim(Box& box, Thread& thread, const Call& call);

}  // namespace ncclwatch::shim::profiler
