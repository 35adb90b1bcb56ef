#include "shim/mpi/core/fortran_site.h"

#include <unwind.h>

#include <atomic>
#include <cstddef>

#include "shim/base/keep_errno.h"
#include "shim/mpi/core/real.h"
#include "shim/resolve/modules.h"

namespace ncclwatch::shim::mpi {
namespace {

constexpr std::size_t kWord = sizeof(std::uint64_t);
constexpr std::size_t kPlaces = 512;  // as many functions as MPI has
constexpr std::size_t kTries = 8;
// Bytes of MPI's frames. Above the outermost frame of any thread more than that is mapped: descriptor and TLS of a
// thread, arguments and environment of the main one.
constexpr std::uintptr_t kFarthest = 1024;

enum class State : std::uint8_t { kFree, kFilling, kReady };

// Where the application's return address lies above the wrapper's frame, 0: not known. A frame that has another size
// this time shows by a word that is no address of the module that called before.
struct Place {
  std::atomic<State> state{State::kFree};
  std::uint64_t site = 0;
  std::uintptr_t distance = 0;
  std::uintptr_t module_begin = 0, module_end = 0;
};
constinit Place fortran_places[kPlaces] = {};

// The frame is another function's.
__attribute__((no_sanitize("address", "thread", "undefined"))) std::uint64_t At(std::uintptr_t place) {
  return __atomic_load_n(reinterpret_cast<const std::uint64_t*>(place), __ATOMIC_RELAXED);
}

struct Walk {
  Entrance wrapper;
  std::uintptr_t distance = 0;
  std::uint64_t caller = 0;
};

_Unwind_Reason_Code Step(_Unwind_Context* context, void* data) {
  auto* walk = static_cast<Walk*>(data);
  const std::uint64_t address = _Unwind_GetIP(context);
  const std::uintptr_t place = _Unwind_GetCFA(context) - kWord;
  if (place <= walk->wrapper.frame + kWord || IsMpisOwn(address)) return _URC_NO_REASON;
  // Not where the processor keeps return addresses elsewhere.
  if (place - walk->wrapper.frame < kFarthest && At(place) == address) {
    walk->distance = place - walk->wrapper.frame;
    walk->caller = address;
  }
  return _URC_NORMAL_STOP;
}

[[gnu::cold]] void Learn(const Entrance& wrapper, Place* place) {
  const KeepErrno keep;
  Walk walk{wrapper};
  resolve::Module module;
  if (IsMpisOwn(wrapper.site)) _Unwind_Backtrace(Step, &walk);
  place->site = wrapper.site;
  if (walk.distance != 0 && resolve::ModuleOf(reinterpret_cast<const void*>(walk.caller), &module)) {
    place->distance = walk.distance;
    place->module_begin = module.begin;
    place->module_end = module.end;
  }
  place->state.store(State::kReady, std::memory_order_release);  // acquired by BehindFortran
}

std::uint64_t SiteAt(const Place& place, const Entrance& wrapper) {
  if (place.distance == 0) return wrapper.site;
  const std::uint64_t site = At(wrapper.frame + place.distance);
  return site > place.module_begin && site <= place.module_end ? site : wrapper.site;
}

}  // namespace

std::uint64_t BehindFortran(const Entrance& wrapper) {
  for (std::size_t tried = 0; tried < kTries; ++tried) {
    Place& place = fortran_places[((wrapper.site ^ wrapper.site >> 9) + tried) % kPlaces];
    State state = place.state.load(std::memory_order_acquire);
    if (state == State::kFree && place.state.compare_exchange_strong(state, State::kFilling)) {
      Learn(wrapper, &place);
      state = State::kReady;
    }
    if (state != State::kReady) return wrapper.site;  // another thread is at it
    if (place.site == wrapper.site) return SiteAt(place, wrapper);
  }
  return wrapper.site;
}

}  // namespace ncclwatch::shim::mpi
