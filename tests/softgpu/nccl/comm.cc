#include "comm.h"

#include <pthread.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <new>

#include "futex.h"
#include "profiler/tell.h"
#include "status.h"

namespace softgpu {
namespace {

std::atomic<uint32_t> fork_generation{0};
const int fork_handler_registered =
    pthread_atfork(nullptr, nullptr, [] { fork_generation.fetch_add(1, std::memory_order_relaxed); });

constexpr unsigned kConfigMagic = 0xcafebeef;
constexpr int kUndefined = INT_MIN;

struct Pool {
  std::mutex mutex;
  std::vector<void*> free;
  uint64_t made = 0;
};

Pool& CommPool() {
  static auto* pool = new Pool;
  return *pool;
}

bool BadFlag(int value) { return value != kUndefined && value != 0 && value != 1; }

// NCCL_COMM_BLOCKING overrides what the program asks for.
void ApplyEnvironment(Config* config) {
  const char* blocking = getenv("NCCL_COMM_BLOCKING");
  if (blocking && (std::strcmp(blocking, "0") == 0 || std::strcmp(blocking, "1") == 0)) {
    config->blocking = blocking[0] - '0';
  }
}

}  // namespace

uint32_t ForkGeneration() {
  (void)fork_handler_registered;
  return fork_generation.load(std::memory_order_relaxed);
}

ncclResult_t ParseConfig(const void* user, Config* config) {
  Config parsed;
  parsed.blocking = parsed.cga_cluster_size = parsed.min_ctas = parsed.max_ctas = parsed.split_share = kUndefined;
  if (user) {
    size_t size = 0;
    std::memcpy(&size, user, sizeof size);
    std::memcpy(&parsed, user, std::min(size, sizeof parsed));
    if (parsed.magic != kConfigMagic) {
      Warn("ncclConfig_t argument not initialized via NCCL_CONFIG_INITIALIZER");
      return ncclInvalidArgument;
    }
    if (parsed.version < 21400) parsed.blocking = kUndefined;
    if (parsed.version < 21700) parsed.cga_cluster_size = parsed.min_ctas = parsed.max_ctas = kUndefined;
    if (parsed.version < 21800) parsed.split_share = kUndefined;
  }
  if (BadFlag(parsed.blocking)) {
    Warn("Invalid config blocking attribute value %d", parsed.blocking);
    return ncclInvalidArgument;
  }
  if (parsed.cga_cluster_size != kUndefined && parsed.cga_cluster_size < 0) {
    Warn("Invalid config cgaClusterSize attribute value %d", parsed.cga_cluster_size);
    return ncclInvalidArgument;
  }
  if ((parsed.min_ctas != kUndefined && parsed.min_ctas <= 0) ||
      (parsed.max_ctas != kUndefined && parsed.max_ctas <= 0) || parsed.min_ctas > parsed.max_ctas) {
    Warn("Invalid config min/max channels attribute value %d/%d", parsed.min_ctas, parsed.max_ctas);
    return ncclInvalidArgument;
  }
  if (BadFlag(parsed.split_share)) {
    Warn("Invalid config splitShare attribute value %d", parsed.split_share);
    return ncclInvalidArgument;
  }
  if (parsed.blocking == kUndefined) parsed.blocking = 1;
  ApplyEnvironment(&parsed);
  *config = parsed;
  return ncclSuccess;
}

ncclComm* NewComm() {
  Pool& pool = CommPool();
  const std::lock_guard lock(pool.mutex);
  void* memory = nullptr;
  if (pool.free.empty()) {
    memory = ::operator new (sizeof(ncclComm), std::align_val_t{alignof(ncclComm)});
  } else {
    memory = pool.free.back();
    pool.free.pop_back();
  }
  auto* comm = new (memory) ncclComm;
  comm->index = pool.made++;
  comm->fork_generation = ForkGeneration();
  return comm;
}

void FreeComm(ncclComm* comm) {
  FinishBackground(comm);
  delete comm->segment.load();
  comm->~ncclComm();
  // After the destructor, and volatile: a store to an object that is about to die may be dropped.
  *reinterpret_cast<volatile uint64_t*>(comm) = 0;
  Pool& pool = CommPool();
  const std::lock_guard lock(pool.mutex);
  pool.free.push_back(comm);
}

void SetAbort(ncclComm* comm, uint32_t value) {
  comm->abort.store(value, std::memory_order_release);
  if (!value) return;
  FutexWakeAll(&comm->abort);
  if (Segment* segment = comm->segment.load()) segment->WakeAll();
  const std::lock_guard lock(comm->mutex);
  comm->changed.notify_all();
}

ncclResult_t PointerCheck(const void* pointer, const char* function, const char* name) {
  if (pointer) return ncclSuccess;
  Warn("%s : %s argument is NULL", function, name);
  return ncclInvalidArgument;
}

ncclResult_t CommCheck(ncclComm* comm, const char* function, const char* name) {
  if (const ncclResult_t result = PointerCheck(comm, function, name); result != ncclSuccess) return result;
  if (comm->magic != kCommMagic) {
    Warn("Error: corrupted comm object detected");
    return ncclInvalidArgument;
  }
  if (comm->fork_generation != ForkGeneration()) {
    Warn("%s : communicator belongs to the parent process", function);
    return ncclInvalidUsage;
  }
  return ncclSuccess;
}

ncclResult_t EnsureReady(ncclComm* comm) {
  if (comm->aborted()) {
    FinishBackground(comm);
    return ncclSuccess;
  }
  ncclResult_t state = ncclSuccess;
  const ncclResult_t result = ncclCommGetAsyncError(comm, &state);
  if (result != ncclSuccess) return result;
  if (state == ncclInProgress) {
    Warn("Attempt to use communicator before the previous operation returned ncclSuccess");
    return ncclInvalidArgument;
  }
  return state;
}

void WaitForKernels(ncclComm* comm) {
  std::unique_lock lock(comm->mutex);
  comm->changed.wait(lock, [&] { return comm->outstanding == 0; });
}

void WaitQuiescent(ncclComm* comm) {
  std::unique_lock lock(comm->mutex);
  comm->changed.wait(lock, [&] { return comm->outstanding == 0 && comm->captured == 0; });
}

void Reclaim(ncclComm* comm) {
  if (!comm->finalize_called.load() || comm->aborted() || comm->revoked.load()) WaitQuiescent(comm);
  FinishBackground(comm);
  {
    std::unique_lock lock(comm->mutex);
    comm->changed.wait(lock, [&] { return comm->outstanding == 0 && comm->users == 0; });
  }
  profiler::Finalize(comm);
  FreeComm(comm);
}

void FinishBackground(ncclComm* comm) {
  std::shared_ptr<BackgroundJob> job;
  {
    const std::lock_guard lock(comm->mutex);
    job = std::move(comm->background);
    comm->background.reset();
  }
  if (job) job->Join();
}

ncclResult_t Connect(ncclComm* comm) {
  comm->sends.assign(comm->nranks, 0);
  comm->receives.assign(comm->nranks, 0);
  ncclResult_t result = ncclSuccess;
  if (comm->nranks > 1) {
    Segment* segment = Segment::Join(comm->identity, comm->nranks, comm->rank);
    if (!segment) {
      Warn("softgpu: no shared memory for a communicator of %d ranks: %s", comm->nranks, std::strerror(errno));
      result = ncclSystemError;
    } else {
      comm->segment.store(segment);
      if (!segment->WaitComplete([comm] { return comm->aborted(); })) result = ncclInternalError;
    }
  }
  if (result == ncclSuccess) profiler::Init(comm);
  comm->init_state = result;
  return result;
}

ncclResult_t ExchangeHosts(ncclComm* comm, uint64_t ordinal, const void* mine, void* all, size_t size) {
  Segment* segment = comm->segment.load();
  if (!segment) {
    std::memcpy(all, mine, size);
    return ncclSuccess;
  }
  std::unique_lock lock(comm->mutex);
  comm->changed.wait(lock, [&] { return comm->aborted() || comm->exchanges_done == ordinal; });
  lock.unlock();
  if (!segment->Exchange(ordinal, mine, all, size, [comm] { return comm->aborted(); })) return ncclInternalError;
  lock.lock();
  ++comm->exchanges_done;
  comm->changed.notify_all();
  return ncclSuccess;
}

ncclRedOp_t MangleReduction(const ncclComm* comm, int op) {
  if (op < kNumBuiltinOps) return static_cast<ncclRedOp_t>(op);
  // A handle depends on the communicator's address, so it differs from process to process, as NCCL's do.
  uint64_t hash = reinterpret_cast<uint64_t>(comm);
  hash ^= hash >> 32;
  hash *= 0x9e3779b97f4a7c13ULL;
  const int mangled = static_cast<int>((hash >> 32) & 0x7fffffff) ^ op;
  return static_cast<ncclRedOp_t>(mangled < kNumBuiltinOps ? op : mangled);
}

bool FindUserReduction(ncclComm* comm, int op, UserReduction* found) {
  const int index = static_cast<int>(MangleReduction(comm, op)) - kNumBuiltinOps;
  const std::lock_guard lock(comm->mutex);
  if (index < 0 || index >= static_cast<int>(comm->reductions.size())) return false;
  *found = comm->reductions[index];
  return found->used;
}

}  // namespace softgpu
