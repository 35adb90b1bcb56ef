#include "profiler/tell.h"

#include <dlfcn.h>
#include <strings.h>

#include <cstdlib>
#include <ctime>
#include <deque>
#include <mutex>
#include <string>
#include <utility>

#include "comm.h"
#include "driver.h"
#include "group.h"
#include "kernel.h"
#include "shim/profiler/interface.h"
#include "status.h"

namespace softgpu::profiler {
namespace {

namespace abi = ncclwatch::shim::profiler;

constexpr const char* kDatatypes[] = {"ncclInt8",    "ncclUint8",    "ncclInt32",      "ncclUint32",
                                      "ncclInt64",   "ncclUint64",   "ncclFloat16",    "ncclFloat32",
                                      "ncclFloat64", "ncclBfloat16", "ncclFloat8e4m3", "ncclFloat8e5m2"};
constexpr const char* kFunctions[] = {"Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce"};
constexpr const char* kAlgorithm = "RING";
constexpr uint8_t kAlgorithmNumber = 1;
constexpr const char* kProtocols[] = {"LL", "LL128", "SIMPLE"};
constexpr int kChannels = 2;

int mask = 0;  // set by the plugin
thread_local void* group_call = nullptr;

int Mask() { return __atomic_load_n(&mask, __ATOMIC_RELAXED); }

uint64_t Timer() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);  // as the GPU's
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

void Log(int, unsigned long, const char*, int, const char*, ...) {}

int ProtocolOf(const Task& task) { return task.count * DatatypeSize(task.datatype) <= 8192 ? 0 : 2; }
uint8_t FunctionNumber(const Task& task) {
  if (task.is_message) return std::string_view(task.function) == "Send" ? 6 : 7;
  for (uint8_t i = 0; i < 5; ++i)
    if (std::string_view(task.function) == kFunctions[i]) return i;
  return 0;
}

template <class T>
auto& Plain(T& described) {
  if constexpr (requires { described.as4; })
    return described.as4;
  else
    return described;
}

template <class D>
void DescribeCommon(const Task& task, D* to) {
  to->count = task.count;
  if constexpr (requires { to->function = ""; }) {
    to->function = task.function;
    to->datatype = kDatatypes[task.datatype];
  } else {
    to->function = FunctionNumber(task);
    to->datatype = static_cast<uint8_t>(task.datatype);
  }
}

template <class E>
void DescribeWork(const Task& task, void* group, E* event) {
  event->type = static_cast<decltype(event->type)>(task.is_message ? abi::kPointToPoint : abi::kCollective);
  event->parent = sizeof event->type == 8 ? task.api : group;
  if (task.is_message) {
    auto& to = Plain(event->point_to_point);
    DescribeCommon(task, &to);
    to.peer = task.root;
    if constexpr (requires { to.channels; }) to.channels = kChannels;
    if constexpr (requires { event->point_to_point.group; }) event->point_to_point.group = group;
    return;
  }
  auto& to = Plain(event->collective);
  DescribeCommon(task, &to);
  to.root = task.root;
  to.channels = kChannels;
  if constexpr (requires { to.algorithm = ""; }) {
    to.algorithm = kAlgorithm;
    to.protocol = kProtocols[ProtocolOf(task)];
  } else {
    to.algorithm = kAlgorithmNumber;
    to.protocol = static_cast<uint8_t>(ProtocolOf(task));
  }
  if constexpr (requires { event->collective.group; }) event->collective.group = group;
}

// One version's plugin, behind what all have in common.
class Plugin {
 public:
  virtual ~Plugin() = default;
  virtual int Init(ncclComm* comm, void** context) = 0;
  virtual void Finalize(void* context) = 0;
  virtual bool HasApi() const = 0;
  virtual void StartGroupCall(void* context, void** handle) = 0;
  virtual void StartCall(void* context, CUstream stream, bool captured, Task* task) = 0;
  virtual void StartGroup(void* context, void** handle) = 0;
  virtual void StartWork(void* context, void* group, Task* task) = 0;
  virtual void StartChannel(void* context, int channel, Task* task) = 0;
  virtual void StopChannel(void* handle, uint64_t timer) = 0;
  virtual void Stop(void* handle) = 0;
};

template <int kVersion, class P>
class Of final : public Plugin {
 public:
  using Event = typename P::Event;
  explicit Of(const P* plugin) : plugin_(*plugin) {}

  int Init(ncclComm* comm, void** context) override {
    const uint64_t hash = comm->identity.low;
    if constexpr (kVersion <= 3)
      return plugin_.init(context, &mask);
    else if constexpr (kVersion == 4)
      return plugin_.init(context, &mask, "", hash, 1, comm->nranks, comm->rank, Log);
    else
      return plugin_.init(context, hash, &mask, "", 1, comm->nranks, comm->rank, Log);
  }
  void Finalize(void* context) override { plugin_.callbacks.finalize(context); }
  bool HasApi() const override { return kVersion >= 5; }

  void StartGroupCall(void* context, void** handle) override {
    if constexpr (kVersion >= 5) {
      Event event{};
      event.type = abi::kGroupApi;
      plugin_.callbacks.start(context, handle, &event);
    }
  }
  void StartCall(void* context, CUstream stream, bool captured, Task* task) override {
    if constexpr (kVersion >= 5) {
      Event event{};
      event.parent = group_call;
      const auto describe = [&](auto& to) {
        DescribeCommon(*task, &to);
        to.stream = stream;
        to.captured = captured;
      };
      event.type = task->is_message ? abi::kPointToPointApi : abi::kCollectiveApi;
      if (task->is_message)
        describe(event.point_to_point_api);
      else
        describe(event.collective_api);
      plugin_.callbacks.start(context, &task->api, &event);
    }
  }
  void StartGroup(void* context, void** handle) override {
    Event event{};
    event.type = abi::kGroup;
    plugin_.callbacks.start(context, handle, &event);
  }
  void StartWork(void* context, void* group, Task* task) override {
    Event event{};
    DescribeWork(*task, group, &event);
    plugin_.callbacks.start(context, &task->event, &event);
  }
  void StartChannel(void* context, int channel, Task* task) override {
    if constexpr (kVersion >= 3) {
      Event event{};
      event.type = abi::kKernelChannel;
      event.parent = task->event;
      event.kernel.channel = static_cast<uint8_t>(channel);
      if (kVersion >= 4) event.kernel.timer = Timer();
      plugin_.callbacks.start(context, &task->channels[channel], &event);
    }
  }
  void StopChannel(void* handle, [[maybe_unused]] uint64_t timer) override {
    if constexpr (kVersion >= 4) {
      abi::StopArguments arguments{timer};
      plugin_.callbacks.record(handle, abi::kKernelChannelStop, &arguments);
    }
    plugin_.callbacks.stop(handle);
  }
  void Stop(void* handle) override { plugin_.callbacks.stop(handle); }

 private:
  const P& plugin_;
};

Plugin* Open(void* library) {
  const char* newest = getenv("SOFTGPU_NCCL_PROFILER");
  for (int version = newest ? atoi(newest) : abi::kVersions; version >= 1; --version) {
    void* const found = dlsym(library, ("ncclProfiler_v" + std::to_string(version)).c_str());
    if (!found) continue;
    switch (version) {
      case 1: return new Of<1, abi::Plugin1<abi::Event1>>(static_cast<abi::Plugin1<abi::Event1>*>(found));
      case 2: return new Of<2, abi::Plugin1<abi::Event2>>(static_cast<abi::Plugin1<abi::Event2>*>(found));
      case 3: return new Of<3, abi::Plugin1<abi::Event3>>(static_cast<abi::Plugin1<abi::Event3>*>(found));
      case 4: return new Of<4, abi::Plugin4>(static_cast<abi::Plugin4*>(found));
      case 5: return new Of<5, abi::Plugin5>(static_cast<abi::Plugin5*>(found));
      case 6: return new Of<6, abi::Plugin5>(static_cast<abi::Plugin5*>(found));
      default: break;
    }
  }
  return nullptr;
}

Plugin* Load() {
  const char* name = getenv("NCCL_PROFILER_PLUGIN");
  if (name && strcasecmp(name, "none") == 0) return nullptr;
  if (!name || !*name) name = "libnccl-profiler.so";
  void* library = dlopen(strcasecmp(name, "STATIC_PLUGIN") == 0 ? nullptr : name, RTLD_NOW | RTLD_LOCAL);
  if (!library && getenv("NCCL_PROFILER_PLUGIN"))
    library = dlopen(("libnccl-profiler-" + std::string(name) + ".so").c_str(), RTLD_NOW | RTLD_LOCAL);
  return library ? Open(library) : nullptr;
}

// Once loaded it stays: NCCL unloads it with the last communicator.
Plugin* Loaded() {
  static Plugin* const plugin = Load();
  return plugin;
}

constexpr int kOfKernels = abi::kKernelChannel | abi::kProxyOperation | abi::kProxyStep | abi::kNetPlugin;
constexpr int kOfWork = abi::kCollective | abi::kPointToPoint | kOfKernels;

}  // namespace

void Init(ncclComm* comm) {
  Plugin* const plugin = Loaded();
  if (plugin && plugin->Init(comm, &comm->profiler) != 0) comm->profiler = nullptr;
}

void Finalize(ncclComm* comm) {
  if (comm->profiler) Loaded()->Finalize(comm->profiler);
  comm->profiler = nullptr;
}

void StartCall(ncclComm* comm, CUstream stream, Task* task) {
  if (!comm->profiler) return;
  task->mask = Mask();
  if (!Loaded()->HasApi()) return;
  if (!group_call && (task->mask & (abi::kGroup | abi::kGroupApi | abi::kCollectiveApi | abi::kPointToPointApi |
                                    abi::kKernelLaunch | kOfWork)) != 0)
    Loaded()->StartGroupCall(comm->profiler, &group_call);
  const int wanted = task->is_message ? abi::kPointToPointApi | abi::kPointToPoint | kOfKernels
                                      : abi::kCollectiveApi | abi::kCollective | kOfKernels;
  if ((task->mask & wanted) == 0) return;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  GetDriver()->stream_capturing(stream, &status);
  Loaded()->StartCall(comm->profiler, stream, status == CU_STREAM_CAPTURE_STATUS_ACTIVE, task);
}

void StopCall(Task* task) {
  if (task->api) Loaded()->Stop(task->api);
}

void StopGroupCall() {
  if (group_call) Loaded()->Stop(group_call);
  group_call = nullptr;
}

template <class Call>
void ForEach(Work* work, const Call& call) {
  for (Collective& collective : work->collectives) call(&collective.task);
  for (PointToPoint& transfer : work->transfers) call(&transfer.task);
}

void StartWork(Work* work, void** group) {
  if (!work->comm->profiler) return;
  int wanted = 0;
  ForEach(work, [&](const Task* task) { wanted |= task->mask; });
  if ((wanted & (abi::kGroup | kOfWork)) != 0) Loaded()->StartGroup(work->comm->profiler, group);
  ForEach(work, [&](Task* task) {
    const int own = task->is_message ? abi::kPointToPoint : abi::kCollective;
    if ((task->mask & (own | kOfKernels)) != 0) Loaded()->StartWork(work->comm->profiler, *group, task);
  });
}

void StopWork(const Work& work, void* group) {
  if (!work.comm->profiler) return;
  ForEach(const_cast<Work*>(&work), [](const Task* task) {
    if (task->event) Loaded()->Stop(task->event);
  });
  if (group) Loaded()->Stop(group);
}

void BeSlow() {
  static const long microseconds = [] {
    const char* const text = std::getenv("SOFTGPU_NCCL_PROFILER_COST");
    return text ? std::atol(text) : 0;
  }();
  const timespec time{microseconds / 1000000, microseconds % 1000000 * 1000};
  if (microseconds > 0) nanosleep(&time, nullptr);
}

void StartChannels(ncclComm* comm, Task* task) {
  if (!comm->profiler || (task->mask & abi::kKernelChannel) == 0) return;
  BeSlow();
  for (int i = 0; i < kChannels; ++i) Loaded()->StartChannel(comm->profiler, i, task);
}

// SOFTGPU_NCCL_PROFILER_LATE=N: the end of a channel is told when N more have ended, with the time at which it was.
class Stops {
 public:
  void Add(void* channel, uint64_t timer) {
    std::unique_lock lock(mutex_);
    late_.emplace_back(channel, timer);
    if (late_.size() <= Late()) return;
    const auto [oldest, time] = late_.front();
    late_.pop_front();
    lock.unlock();
    Loaded()->StopChannel(oldest, time);
  }

 private:
  static size_t Late() {
    static const size_t late = [] {
      const char* const text = std::getenv("SOFTGPU_NCCL_PROFILER_LATE");
      return text ? std::strtoul(text, nullptr, 10) : 0;
    }();
    return late;
  }
  std::mutex mutex_;
  std::deque<std::pair<void*, uint64_t>> late_;
};
Stops stops;

void StopChannels(Task* task) {
  for (void*& channel : task->channels) {
    if (channel) stops.Add(channel, Timer());
    channel = nullptr;
  }
}

}  // namespace softgpu::profiler
