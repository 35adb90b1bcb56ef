#include "shim/profiler/plugin.h"

#include <dlfcn.h>
#include <link.h>

#include <array>
#include <atomic>
#include <cstring>
#include <new>
#include <string>

#include "ncclwatch/functions/types.h"
#include "shim/base/keep_errno.h"
#include "shim/base/process.h"
#include "shim/black_box/box.h"
#include "shim/black_box/groups.h"
#include "shim/profiler/events.h"
#include "shim/profiler/interface.h"
#include "shim/profiler/wanted.h"
#include "shim/profiler/work.h"
#include "shim/resolve/preload.h"
#include "watchdog/log/log.h"

namespace ncclwatch::shim::profiler {
namespace {

// What NCCL must tell of a call for its kernel to be timed.
constexpr int kWanted = kCollective | kPointToPoint | kKernelChannel;

// The mask of one NCCL library of the process, and what the user's plugin would have it be.
struct Mask {
  std::atomic<int*> ncclwatch_sets{nullptr};  // NCCL's own; null: free
  std::atomic<int> communicators{0};          // that are alive
  int theirs = 0;                             // their plugin may change it at any time
};
constinit std::array<Mask, 4> masks;

int TheirMask(const Mask& mask) { return __atomic_load_n(&mask.theirs, __ATOMIC_RELAXED); }

void SetMasks(bool wanted) {
  for (Mask& mask : masks)
    if (int* const at = mask.ncclwatch_sets.load(std::memory_order_relaxed))
      __atomic_store_n(at, TheirMask(mask) | (wanted ? kWanted : 0), __ATOMIC_RELAXED);
}

Mask* Join(int* at) {
  for (Mask& mask : masks) {
    int* free = nullptr;
    if (mask.ncclwatch_sets.load(std::memory_order_relaxed) != at &&
        !mask.ncclwatch_sets.compare_exchange_strong(free, at, std::memory_order_relaxed) && free != at)
      continue;
    mask.communicators.fetch_add(1, std::memory_order_relaxed);
    return &mask;
  }
  return nullptr;
}

// NCCL may be unloaded once its last communicator is gone.
void Leave(Mask& mask) {
  if (mask.communicators.fetch_sub(1, std::memory_order_relaxed) == 1) mask.ncclwatch_sets.store(nullptr);
}

// Of one communicator.
struct Context {
  Mask* mask = nullptr;
  void* theirs = nullptr;  // their plugin's
  bool has_theirs = false;
  std::uint32_t rank = 0, size = 0;  // 4 on
};

template <int kVersion>
struct PluginOf;
template <>
struct PluginOf<1> {
  using Type = Plugin1<Event1>;
};
template <>
struct PluginOf<2> {
  using Type = Plugin1<Event2>;
};
template <>
struct PluginOf<3> {
  using Type = Plugin1<Event3>;
};
template <>
struct PluginOf<4> {
  using Type = Plugin4;
};
template <>
struct PluginOf<5> {
  using Type = Plugin5;
};
template <>
struct PluginOf<6> {
  using Type = Plugin5;
};

// The user's plugins, by version.
constinit std::atomic<const void*> their_plugins[kVersions + 1] = {};

// Until version 4 NCCL tells of a group's work when the group ends, and in another order. Its calls of equal function
// and size on communicators of equal size and rank are equal to NCCL too.
void* FollowOneOf(Box& box, Group& group, const Context& context, bool has_kernels, const Work& work,
                  const Theirs& theirs) {
  for (std::uint32_t i = 0; i < group.operations; ++i) {
    Operation& operation = group.operation[i];
    if (operation.timing != Timing::kWanted) continue;
    const format::Record& record = box.RecordAt(operation.slot);
    const format::Communicator& on = box.communicators[operation.index];
    if (context.size != 0 && (context.size != on.size || context.rank != on.rank)) continue;
    const auto* const function = functions::Find(static_cast<functions::Function>(operation.function));
    if (!function || (function->name != "ncclBcast" ? function->name.substr(4) : "Broadcast") != work.function ||
        record.count * functions::DatatypeBytes(record.dtype) != work.bytes)
      continue;
    operation.timing = Timing::kFollowed;
    return FollowCall(box, operation.slot, has_kernels, theirs);
  }
  return nullptr;
}

// Of the call that this thread is in.
void* FollowOwn(Box& box, bool has_kernels, const Theirs& theirs) {
  Thread& thread = current_thread;
  if (thread.box != &box || thread.timed_slot == 0) return nullptr;
  if (thread.timed_event) return FollowPart(thread.timed_event, theirs);
  void* const followed = FollowCall(box, thread.timed_slot - 1, has_kernels, theirs);
  thread.timed_event = followed;
  return followed;
}

void* FollowWork(Box& box, const Context& context, const void* parent, int version, const Work& work,
                 const Theirs& theirs) {
  const bool has_kernels = version >= 3, has_api = version >= 5;
  void* followed = nullptr;
  if (IsFollowed(parent))
    followed = FollowPart(parent, theirs);
  else if (has_api)
    return nullptr;  // of a call that is not timed
  else if (Group* const group = current_thread.box == &box ? current_thread.timed_group : nullptr)
    followed = FollowOneOf(box, *group, context, has_kernels, work, theirs);
  else
    followed = FollowOwn(box, has_kernels, theirs);
  if (followed) NoteWay(followed, work.algorithm, work.protocol);
  return followed;
}

// Which of a plugin's masks NCCL begins an event for. The rest it begins for no other reason than their mask.
int Needs(std::uint64_t type) {
  constexpr int kOfOperations = kProxyOperation | kProxyStep | kKernelChannel | kNetPlugin;
  constexpr int kCopyEngine = 7 << 12;
  switch (type) {
    case kGroup: return kGroup | kCollective | kPointToPoint | kOfOperations;
    case kCollective: return kCollective | kOfOperations;
    case kPointToPoint: return kPointToPoint | kOfOperations;
    case kKernelChannel: return kKernelChannel;
    case kGroupApi:
      return kGroupApi | kPointToPointApi | kCollectiveApi | kKernelLaunch | kGroup | kCollective | kPointToPoint |
             kOfOperations | kCopyEngine;
    case kCollectiveApi: return kCollectiveApi | kCollective | kOfOperations | kCopyEngine;
    case kPointToPointApi: return kPointToPointApi | kPointToPoint | kOfOperations;
    default: return ~0;
  }
}

template <int kVersion>
struct Version {
  using Plugin = typename PluginOf<kVersion>::Type;
  using E = typename Plugin::Event;

  static const Plugin* Theirs() {
    return static_cast<const Plugin*>(their_plugins[kVersion].load(std::memory_order_acquire));
  }

  // With their own handle of the parent in the event.
  static profiler::Theirs StartTheirs(const Context& context, E* event) {
    if (!context.has_theirs) return {};
    profiler::Theirs of_parent{event->parent, TheirMask(*context.mask)};
    const bool followed = IsFollowed(event->parent);
    if (followed && !FindTheirs(event->parent, &of_parent)) return {};
    // A channel is told of long after its call.
    if ((of_parent.mask & Needs(event->type)) == 0) return {};
    void* const parent = event->parent;
    event->parent = of_parent.handle;
    profiler::Theirs theirs{nullptr, of_parent.mask};
    if (Theirs()->callbacks.start(context.theirs, &theirs.handle, event) != 0) theirs.handle = nullptr;
    event->parent = parent;
    return theirs;
  }

  static void* FollowOurs(const Context& context, const E& event, const profiler::Theirs& theirs) {
    Box* const box = CurrentBox();
    if (!box) return nullptr;
    if (TooCostly()) SetMasks(false);  // another thread may have set them after that was decided
    switch (event.type) {
      case kCollective:
      case kPointToPoint: return FollowWork(*box, context, event.parent, kVersion, WorkOf(event), theirs);
      default: break;
    }
    if constexpr (requires { event.kernel; }) {
      // Version 3 has no timer.
      if (event.type == kKernelChannel && IsFollowed(event.parent))
        return FollowChannel(event.parent, event.kernel.channel, kVersion >= 4 ? event.kernel.timer : 0, theirs);
    }
    if constexpr (requires { event.collective_api; }) {
      if (event.type == kCollectiveApi && !event.collective_api.captured) return FollowOwn(*box, true, theirs);
      if (event.type == kPointToPointApi && !event.point_to_point_api.captured) return FollowOwn(*box, true, theirs);
    }
    return nullptr;
  }

  static int Start(void* context, void** handle, E* event) {
    const KeepErrno keep;
    const auto& own = *static_cast<const Context*>(context);
    const profiler::Theirs theirs = StartTheirs(own, event);
    void* const followed = FollowOurs(own, *event, theirs);
    *handle = followed ? followed : theirs.handle;
    return 0;
  }

  static int Stop(void* handle) {
    const KeepErrno keep;
    void* theirs = handle;
    if (IsFollowed(handle)) {
      if (kVersion < 4) EndChannel(handle, 0);
      theirs = TakeTheirStop(handle);
    }
    return theirs && Theirs() ? Theirs()->callbacks.stop(theirs) : 0;
  }

  static int Record(void* handle, std::int32_t state, void* arguments) {
    const KeepErrno keep;
    void* theirs = handle;
    if (IsFollowed(handle)) {
      if (kVersion >= 4 && state == kKernelChannelStop && arguments)
        EndChannel(handle, static_cast<const StopArguments*>(arguments)->timer);
      profiler::Theirs known;
      theirs = FindTheirs(handle, &known) ? known.handle : nullptr;
    }
    return theirs && Theirs() ? Theirs()->callbacks.record(theirs, state, arguments) : 0;
  }

  static int Finalize(void* context) {
    const KeepErrno keep;
    auto* const own = static_cast<Context*>(context);
    const int result = own->has_theirs ? Theirs()->callbacks.finalize(own->theirs) : 0;
    Leave(*own->mask);
    delete own;
    return result;
  }

  // call: begins their plugin with the context and the mask that it is given.
  template <class Call>
  static int Begin(void** context, int* mask, std::uint32_t rank, std::uint32_t size, const Call& call) {
    const KeepErrno keep;
    auto* const own = new (std::nothrow) Context;
    Mask* const joined = own ? Join(mask) : nullptr;
    if (!joined) {
      delete own;
      return 1;  // NCCL goes on without a profiler
    }
    own->mask = joined;
    own->rank = rank;
    own->size = size;
    if (Theirs()) own->has_theirs = call(&own->theirs, &joined->theirs) == 0;
    __atomic_store_n(mask, TheirMask(*joined), __ATOMIC_RELAXED);
    Box* const box = TooCostly() ? nullptr : CurrentBox();
    if (box) box->detours.fetch_or(kTimesKernels, std::memory_order_relaxed);
    *context = own;
    return 0;
  }
  static int Init1(void** context, int* mask) {
    return Begin(context, mask, 0, 0, [](void** theirs, int* their_mask) {
      if constexpr (kVersion <= 3)
        return Theirs()->init(theirs, their_mask);
      else
        return 1;
    });
  }
  static int Init4(void** context, int* mask, const char* name, std::uint64_t hash, int nodes, int ranks, int rank,
                   Logger log) {
    return Begin(context, mask, static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(ranks),
                 [&](void** theirs, int* their_mask) {
                   if constexpr (kVersion == 4)
                     return Theirs()->init(theirs, their_mask, name, hash, nodes, ranks, rank, log);
                   else
                     return 1;
                 });
  }
  static int Init5(void** context, std::uint64_t hash, int* mask, const char* name, int nodes, int ranks, int rank,
                   Logger log) {
    return Begin(context, mask, static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(ranks),
                 [&](void** theirs, int* their_mask) {
                   if constexpr (kVersion >= 5)
                     return Theirs()->init(theirs, hash, their_mask, name, nodes, ranks, rank, log);
                   else
                     return 1;
                 });
  }

  static constexpr auto InitOf() {
    if constexpr (kVersion <= 3)
      return &Init1;
    else if constexpr (kVersion == 4)
      return &Init4;
    else
      return &Init5;
  }
  // NCCL takes it as changeable.
  static constinit Plugin plugin;
};

template <int kVersion>
constinit typename Version<kVersion>::Plugin Version<kVersion>::plugin = {
    "ncclwatch", Version::InitOf(), {&Version::Start, &Version::Stop, &Version::Record, &Version::Finalize}};

constexpr void* kPlugins[kVersions + 1] = {nullptr,
                                           &Version<1>::plugin,
                                           &Version<2>::plugin,
                                           &Version<3>::plugin,
                                           &Version<4>::plugin,
                                           &Version<5>::plugin,
                                           &Version<6>::plugin};
constexpr std::size_t kPluginBytes = sizeof(Version<6>::plugin);
static_assert(kPluginBytes == sizeof(Version<1>::plugin) && kPluginBytes == sizeof(Version<4>::plugin));

// Of the process as a whole, as dlopen(nullptr) gives it.
bool IsGlobalScope(void* handle) {
  link_map* map = nullptr;
  return handle != RTLD_DEFAULT && dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map && map->l_prev == nullptr;
}

bool HasPlugin(void* handle) {
  for (const char* name : {"ncclProfiler_v7", "ncclProfiler_v6", "ncclProfiler_v5", "ncclProfiler_v4",
                           "ncclProfiler_v3", "ncclProfiler_v2", "ncclProfiler_v1"})
    if (resolve::Dlsym(handle, name)) return true;
  return false;
}

}  // namespace

void* Answer(void* handle, const char* name, void* real) {
  const KeepErrno keep;
  const Box* const box = CurrentBox();
  const char version = name[kSymbol.size()];
  const int number = version >= '1' && version <= '0' + kVersions && name[kSymbol.size() + 1] == 0 ? version - '0' : 0;
  if (!box || box->times_every == 0) return real;
  if (!real) return number != 0 && IsGlobalScope(handle) && !HasPlugin(handle) ? kPlugins[number] : nullptr;
  const bool offered = number != 0 && std::memcmp(real, kPlugins[number], kPluginBytes) == 0;
  if (!box->times_beside_others || offered) return real;
  const void* none = nullptr;
  if (number != 0 && (their_plugins[number].compare_exchange_strong(none, real) || none == real))
    return kPlugins[number];
  log::host::Warn(
      "NCCLWATCH_PROFILER: the plugin that NCCL has loaded has {}, which is not known here: no kernel is timed", name);
  return real;
}

void FillIn(void* offered) {
  for (int version = 1; version <= kVersions; ++version) {
    const std::string name = std::string(kSymbol) + std::to_string(version);
    if (void* const room = resolve::Dlsym(offered, name.c_str())) std::memcpy(room, kPlugins[version], kPluginBytes);
  }
}

void Aim(Box& box, Thread& thread, const Call& call) {
  thread.timed_slot = 0;
  thread.timed_event = nullptr;
  thread.timed_group = call.closing;
  if (call.family == functions::Family::kGroup) return;
  const bool wanted = IsWanted(box, call);
  if (wanted) thread.timed_slot = call.slot + 1;
  SetMasks(wanted);
}

}  // namespace ncclwatch::shim::profiler
