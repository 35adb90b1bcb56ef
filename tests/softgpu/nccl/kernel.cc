#include "kernel.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <tuple>

#include "driver.h"
#include "futex.h"
#include "log.h"
#include "status.h"

namespace softgpu {
namespace {

// Streams of one kernel beside its first: each stands still from before the kernel starts until it is over.
struct Joint {
  std::mutex mutex;
  std::condition_variable changed;
  int arrived = 0;
  uint64_t finished = 0;   // runs, so that a captured kernel can be replayed
  bool cancelled = false;  // the kernel will not wait for late streams, nor may they wait for it
};

struct Kernel {
  ncclComm* comm = nullptr;
  std::vector<Collective> collectives;
  std::vector<PointToPoint> transfers;
  std::shared_ptr<Joint> joint;
  int joined_streams = 0;
  bool captured = false;
  uint64_t order = 0;  // among the kernels launched outside graphs
  bool over = false;   // the only run of a kernel outside a graph has ended
};

// SOFTGPU_NCCL_ASYNC_ERROR="rank:call:code": the kernel of the `call`-th collective or group (from 0) of every
// communicator on that rank fails: it stays stuck, and the communicator reports `code`.
struct Injected {
  int rank = -1;
  unsigned long long call = 0;
  int code = 0;
};

const Injected& InjectedError() {
  static const Injected injected = [] {
    Injected parsed;
    const char* text = getenv("SOFTGPU_NCCL_ASYNC_ERROR");
    if (text && std::sscanf(text, "%d:%llu:%d", &parsed.rank, &parsed.call, &parsed.code) != 3) parsed.rank = -1;
    return parsed;
  }();
  return injected;
}

// SOFTGPU_NCCL_SLOW="call:us": from the `call`-th collective or group (from 0) of every communicator on its kernels
// take so much longer, as behind a link that has become slow.
void BeSlow(uint64_t call) {
  struct Slow {
    unsigned long long call = ~0ULL;
    unsigned microseconds = 0;
  };
  static const Slow slow = [] {
    Slow parsed;
    const char* text = getenv("SOFTGPU_NCCL_SLOW");
    if (text && std::sscanf(text, "%llu:%u", &parsed.call, &parsed.microseconds) != 2) parsed.call = ~0ULL;
    return parsed;
  }();
  if (call < slow.call) return;
  const timespec time{slow.microseconds / 1000000, slow.microseconds % 1000000 * 1000L};
  nanosleep(&time, nullptr);
}

// Kernels outside graphs run in the order of their launches whatever their streams; a kernel of a graph runs between
// them where its stream puts it. False if aborted before its turn.
bool BeginKernel(Kernel* kernel) {
  ncclComm* comm = kernel->comm;
  std::unique_lock lock(comm->mutex);
  if (kernel->captured) ++comm->outstanding;
  comm->changed.wait(lock, [&] {
    return comm->aborted() || (!comm->running && (kernel->captured || comm->completed == kernel->order));
  });
  if (comm->aborted()) return false;
  comm->running = true;
  return true;
}

void EndKernel(Kernel* kernel, bool ran) {
  ncclComm* comm = kernel->comm;
  const std::lock_guard lock(comm->mutex);
  if (ran) comm->running = false;
  if (!kernel->captured) {
    comm->completed_early.insert(kernel->order);
    while (comm->completed_early.erase(comm->completed)) ++comm->completed;
    kernel->over = true;
  }
  --comm->outstanding;
  // Under the lock: whoever waits for the last kernel frees the communicator next.
  comm->changed.notify_all();
}

bool RunBody(Kernel* kernel) {
  ncclComm* comm = kernel->comm;
  const Injected& injected = InjectedError();
  const uint64_t call = comm->kernel_calls++;
  if (injected.rank == comm->rank && injected.call == call) {
    comm->async_result.store(injected.code);
    return StayStuck(comm);
  }
  for (Collective& collective : kernel->collectives) {
    const KernelLine line;
    profiler::StartChannels(comm, &collective.task);
    if (!RunCollective(comm, collective)) return false;
    BeSlow(call);
    profiler::StopChannels(&collective.task);
    line.Write(*comm, collective.task);
  }
  if (kernel->transfers.empty()) return true;
  const KernelLine line;
  for (PointToPoint& transfer : kernel->transfers) profiler::StartChannels(comm, &transfer.task);
  if (!RunTransfers(comm, kernel->transfers)) return false;
  for (PointToPoint& transfer : kernel->transfers) profiler::StopChannels(&transfer.task);
  for (const PointToPoint& transfer : kernel->transfers) line.Write(*comm, transfer.task);
  return true;
}

void WaitForJointStreams(Kernel* kernel) {
  Joint& joint = *kernel->joint;
  std::unique_lock lock(joint.mutex);
  while (joint.arrived < kernel->joined_streams && !kernel->comm->aborted()) {
    joint.changed.wait_for(lock, std::chrono::nanoseconds(kFutexTimeoutNs));
  }
}

void ReleaseJointStreams(Joint& joint, bool cancel) {
  const std::lock_guard lock(joint.mutex);
  joint.cancelled |= cancel;
  joint.arrived = 0;
  ++joint.finished;
  joint.changed.notify_all();
}

void RunKernel(void* argument) {
  auto* kernel = static_cast<Kernel*>(argument);
  if (kernel->joint) WaitForJointStreams(kernel);
  const bool ran = BeginKernel(kernel);
  const bool completed = ran && RunBody(kernel);
  if (kernel->joint) ReleaseJointStreams(*kernel->joint, !completed);
  EndKernel(kernel, ran);
}

void DestroyKernel(void* argument) {
  auto* kernel = static_cast<Kernel*>(argument);
  if (kernel->captured) {
    const std::lock_guard lock(kernel->comm->mutex);
    --kernel->comm->captured;
    kernel->comm->changed.notify_all();
  } else if (!kernel->over) {
    EndKernel(kernel, false);  // never ran: the launch failed, or its stream is gone
  }
  delete kernel;
}

void RunJoint(void* argument) {
  Joint& joint = **static_cast<std::shared_ptr<Joint>*>(argument);
  std::unique_lock lock(joint.mutex);
  if (joint.cancelled) return;
  const uint64_t before = joint.finished;
  ++joint.arrived;
  joint.changed.notify_all();
  joint.changed.wait(lock, [&] { return joint.finished != before; });
}

void DestroyJoint(void* argument) { delete static_cast<std::shared_ptr<Joint>*>(argument); }

ncclResult_t CheckTransfersToSelf(const Work& work) {
  int sends = 0;
  int receives = 0;
  for (const PointToPoint& t : work.transfers) {
    if (t.peer == work.comm->rank) ++(t.is_send ? sends : receives);
  }
  if (sends > receives) Warn("Trying to send to self without a matching recv");
  if (sends < receives) Warn("Trying to recv to self without a matching send");
  return sends == receives ? ncclSuccess : ncclInvalidUsage;
}

// NCCL sorts a group's collectives by size; ranks that call the same set in different order agree by any fixed order.
void Sort(std::vector<Collective>* collectives) {
  const auto key = [](const Collective& c) {
    const size_t bytes = c.count * DatatypeSize(c.datatype);
    return std::make_tuple(~bytes, c.function, c.reduction.kind, c.datatype, c.root);
  };
  std::stable_sort(collectives->begin(), collectives->end(),
                   [&](const Collective& a, const Collective& b) { return key(a) < key(b); });
}

// Whether the streams are being captured; ncclInvalidUsage if only some are.
ncclResult_t QueryCapture(const Work& work, bool* captured) {
  for (size_t i = 0; i < work.streams.size(); ++i) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (GetDriver()->stream_capturing(work.streams[i], &status) != CUDA_SUCCESS) return ncclUnhandledCudaError;
    const bool active = status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
    if (i > 0 && active != *captured) {
      Warn(
          "Streams given to a communicator within a NCCL group must either be all uncaptured or all captured by the "
          "same "
          "graph.");
      return ncclInvalidUsage;
    }
    *captured = active;
  }
  return ncclSuccess;
}

ncclResult_t Enqueue(CUstream stream, void (*run)(void*), void* argument, void (*destroy)(void*)) {
  const CUresult result = GetDriver()->enqueue(stream, run, argument, destroy);
  if (result == CUDA_SUCCESS) return ncclSuccess;
  Warn("Cuda failure %d", result);
  return ncclUnhandledCudaError;
}

}  // namespace

void LookAfterPeers(ncclComm* comm) {
  static const bool wanted = [] {
    const char* value = getenv("SOFTGPU_NCCL_PEER_ERROR");
    return value && value[0] == '1';
  }();
  Segment* segment = comm->segment.load();
  if (!wanted || !segment || !segment->PeerIsGone()) return;
  int none = ncclSuccess;
  if (comm->async_result.compare_exchange_strong(none, ncclRemoteError)) {
    Warn("Connection closed by remote peer of communicator rank %d", comm->rank);
  }
}

bool StayStuck(ncclComm* comm) {
  while (!comm->aborted()) {
    if (!FutexWait(&comm->abort, 0)) LookAfterPeers(comm);
  }
  return false;
}

ncclResult_t Launch(Work work) {
  ncclComm* comm = work.comm;
  if (const ncclResult_t result = CheckTransfersToSelf(work); result != ncclSuccess) return result;
  const ScopedContext context(comm->context);
  auto* kernel = new Kernel;
  if (const ncclResult_t result = QueryCapture(work, &kernel->captured); result != ncclSuccess) {
    delete kernel;
    return result;
  }
  if (work.collectives.size() > 1) Sort(&work.collectives);
  void* group_event = nullptr;
  profiler::StartWork(&work, &group_event);
  profiler::StopWork(work, group_event);
  kernel->comm = comm;
  kernel->collectives = std::move(work.collectives);
  kernel->transfers = std::move(work.transfers);
  {
    const std::lock_guard lock(comm->mutex);
    if (kernel->captured) {
      ++comm->captured;
    } else {
      kernel->order = comm->launched++;
      ++comm->outstanding;
    }
  }
  if (work.streams.size() > 1) kernel->joint = std::make_shared<Joint>();
  for (size_t i = 1; i < work.streams.size(); ++i) {
    const ncclResult_t result =
        Enqueue(work.streams[i], RunJoint, new std::shared_ptr<Joint>(kernel->joint), DestroyJoint);
    if (result == ncclSuccess) {
      ++kernel->joined_streams;
      continue;
    }
    ReleaseJointStreams(*kernel->joint, true);
    DestroyKernel(kernel);
    return result;
  }
  return Enqueue(work.streams[0], RunKernel, kernel, DestroyKernel);
}

ncclResult_t LaunchAlone(ncclComm* comm, CUstream stream, const Collective& collective) {
  if (collective.reduction.kind != ReductionKind::kPreMulSum && collective.send == collective.receive) {
    return ncclSuccess;
  }
  const ScopedContext context(comm->context);
  return Enqueue(
      stream,
      [](void* argument) {
        const auto& c = *static_cast<const Collective*>(argument);
        CopyPrepared(c.receive, c.send, c.count, c.datatype, c.reduction);
      },
      new Collective(collective), [](void* argument) { delete static_cast<Collective*>(argument); });
}

}  // namespace softgpu
