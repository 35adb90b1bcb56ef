// NCCL's profiler interface, versions 1 to 6 (NCCL 2.23 to 2.31), as far as it is used here: what a plugin exports as
// ncclProfiler_v<n>, and the descriptions of events. The layout is NCCL's (plugin/profiler/profiler_v<n>.h in its
// source); members that nobody here reads are only named where they take room before one that is read.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ncclwatch::shim::profiler {

// Bits of the mask of events that a plugin asks for, and types of events.
enum EventType : std::uint64_t {
  kGroup = 1 << 0,
  kCollective = 1 << 1,
  kPointToPoint = 1 << 2,
  kProxyOperation = 1 << 3,
  kProxyStep = 1 << 4,
  kProxyControl = 1 << 5,
  kKernelChannel = 1 << 6,  // 3 on
  kNetPlugin = 1 << 7,
  kGroupApi = 1 << 8,  // 5 on
  kCollectiveApi = 1 << 9,
  kPointToPointApi = 1 << 10,
  kKernelLaunch = 1 << 11,
};

enum EventState : std::int32_t { kKernelChannelStop = 22 };  // 4 on

// Result of all functions: ncclResult_t, 0 is success.
using Logger = void (*)(int level, unsigned long flags, const char* file, int line, const char* format, ...);

struct KernelChannel {
  std::uint8_t channel;
  std::uint64_t timer;  // GPU's, ns; 4 on
};

struct Event1 {
  struct Collective {
    const char* name;
    std::uint64_t communicator;
    std::uint64_t sequence;
    std::uint8_t function;
    const void* send;
    void* receive;
    std::size_t count;
    std::int32_t root;
    std::uint8_t datatype;
    std::uint32_t reduction;
    std::size_t traffic;
    std::uint8_t channels;
    std::uint8_t warps;
    std::uint8_t algorithm;
    std::uint8_t protocol;
    std::int32_t collnet;
    std::int32_t nvls;
  };
  struct PointToPoint {
    const char* name;
    std::uint64_t communicator;
    std::uint8_t function;
    void* buffer;
    std::uint8_t datatype;
    std::size_t count;
    std::int32_t peer;
  };
  std::uint8_t type;
  void* parent;
  std::int32_t rank;
  union {
    Collective collective;
    PointToPoint point_to_point;
  };
};

struct Event2 {
  struct Collective {
    const char* name;
    std::uint64_t communicator;
    std::uint64_t sequence;
    const char* function;
    const void* send;
    void* receive;
    std::size_t count;
    std::int32_t root;
    const char* datatype;
    std::size_t traffic;
    std::uint8_t channels;
    std::uint8_t warps;
    const char* algorithm;
    const char* protocol;
  };
  struct PointToPoint {
    const char* name;
    std::uint64_t communicator;
    const char* function;
    void* buffer;
    const char* datatype;
    std::size_t count;
    std::int32_t peer;
  };
  std::uint8_t type;
  void* parent;
  std::int32_t rank;
  union {
    Collective collective;
    PointToPoint point_to_point;
  };
};

struct Event3 {
  struct Collective {
    const char* name;
    std::uint64_t communicator;
    std::uint64_t sequence;
    const char* function;
    const void* send;
    void* receive;
    std::size_t count;
    std::int32_t root;
    const char* datatype;
    std::uint8_t channels;
    std::uint8_t warps;
    const char* algorithm;
    const char* protocol;
  };
  std::uint8_t type;
  void* parent;
  std::int32_t rank;
  union {
    Collective collective;
    Event2::PointToPoint point_to_point;
    KernelChannel kernel;
  };
};

struct Event4 {
  struct Collective {
    std::uint64_t sequence;
    const char* function;
    const void* send;
    void* receive;
    std::size_t count;
    std::int32_t root;
    const char* datatype;
    std::uint8_t channels;
    std::uint8_t warps;
    const char* algorithm;
    const char* protocol;
  };
  struct PointToPoint {
    const char* function;
    void* buffer;
    const char* datatype;
    std::size_t count;
    std::int32_t peer;
    std::uint8_t channels;
  };
  std::uint8_t type;
  void* parent;
  std::int32_t rank;
  union {
    Collective collective;
    PointToPoint point_to_point;
    KernelChannel kernel;
  };
};

// And of version 6, which has further types of events.
struct Event5 {
  struct Collective {
    Event4::Collective as4;
    void* group;
  };
  struct PointToPoint {
    Event4::PointToPoint as4;
    void* group;
  };
  struct CollectiveApi {
    const char* function;
    std::size_t count;
    const char* datatype;
    std::int32_t root;
    void* stream;
    bool captured;  // into a graph
  };
  struct PointToPointApi {
    const char* function;
    std::size_t count;
    const char* datatype;
    void* stream;
    bool captured;
  };
  std::uint64_t type;
  void* parent;
  std::int32_t rank;
  union {
    CollectiveApi collective_api;
    PointToPointApi point_to_point_api;
    Collective collective;
    PointToPoint point_to_point;
    KernelChannel kernel;
  };
};

static_assert(offsetof(Event1, collective) == 24 && offsetof(Event5, collective) == 24);
static_assert(offsetof(Event1::Collective, algorithm) == 82 && offsetof(Event2::Collective, algorithm) == 88);
static_assert(offsetof(Event3::Collective, algorithm) == 80 && offsetof(Event4::Collective, algorithm) == 64);
static_assert(sizeof(Event5::Collective) == 88);

// Of kKernelChannelStop.
struct StopArguments {
  std::uint64_t timer;  // GPU's, ns
};

template <class E>
struct Callbacks {
  int (*start)(void* context, void** handle, E* event);
  int (*stop)(void* handle);
  int (*record)(void* handle, std::int32_t state, void* arguments);
  int (*finalize)(void* context);
};

template <class E>
struct Plugin1 {  // 1 to 3
  using Event = E;
  const char* name;
  int (*init)(void** context, int* mask);
  Callbacks<E> callbacks;
};
struct Plugin4 {
  using Event = Event4;
  const char* name;
  int (*init)(void** context, int* mask, const char* communicator, std::uint64_t hash, int nodes, int ranks, int rank,
              Logger log);
  Callbacks<Event4> callbacks;
};
struct Plugin5 {  // 5 and 6
  using Event = Event5;
  const char* name;
  int (*init)(void** context, std::uint64_t hash, int* mask, const char* communicator, int nodes, int ranks, int rank,
              Logger log);
  Callbacks<Event5> callbacks;
};

inline constexpr int kVersions = 6;

}  // namespace ncclwatch::shim::profiler
