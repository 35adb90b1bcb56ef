// A communicator of this process: one rank of it.
#ifndef SOFTGPU_NCCL_COMM_H_
#define SOFTGPU_NCCL_COMM_H_

#include <cuda.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "nccl_header.h"
#include "reduce.h"
#include "segment.h"

namespace softgpu {

constexpr uint64_t kCommMagic = 0x0280028002800280ULL;

// A reduction made by ncclRedOpCreatePreMulSum.
struct UserReduction {
  bool used = false;
  int datatype = 0;
  Reduction reduction;
};

// Work of a group of non-blocking communicators, done by a thread of its own. Shared by those communicators; the first
// that needs it finished joins the thread.
class BackgroundJob {
 public:
  BackgroundJob() = default;
  BackgroundJob(const BackgroundJob&) = delete;
  BackgroundJob& operator=(const BackgroundJob&) = delete;
  // Nobody is left to join it; it works on alone and touches nothing of this object.
  ~BackgroundJob() {
    if (thread_.joinable()) thread_.detach();
  }
  template <typename F>
  void Start(F work) {
    const std::lock_guard lock(mutex_);
    thread_ = std::thread(std::move(work));
  }
  void Join() {
    const std::lock_guard lock(mutex_);
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::mutex mutex_;
  std::thread thread_;
};

// ncclConfig_t as of 2.28; what another version's header does not have stays undefined.
struct Config {
  size_t size = 0;
  unsigned magic = 0;
  unsigned version = 0;
  int blocking = 1;
  int cga_cluster_size = 0;
  int min_ctas = 0;
  int max_ctas = 0;
  const char* net_name = nullptr;
  int split_share = 0;
};

// Fills *config from the user's ncclConfig_t (nullptr: all defaults), checking it as NCCL does.
ncclResult_t ParseConfig(const void* user, Config* config);

}  // namespace softgpu

struct ncclComm {
  uint64_t magic = softgpu::kCommMagic;  // first member: a recycled or freed handle is told by it

  int rank = 0;
  int nranks = 0;
  int device = 0;
  CUcontext context = nullptr;
  softgpu::Identity identity;
  uint64_t index = 0;            // order of creation in this process
  uint32_t fork_generation = 0;  // of the process that made it
  softgpu::Config config;

  std::atomic<uint32_t> abort{0};  // a private futex
  std::atomic<bool> revoked{false};
  std::atomic<int> async_result{ncclSuccess};
  std::atomic<bool> destroying{false};
  std::atomic<bool> finalize_called{false};
  ncclResult_t init_state = ncclInProgress;

  std::atomic<softgpu::Segment*> segment{nullptr};  // owned; null while one rank is alone
  uint64_t exchanges = 0;       // exchanges between hosts that calls have asked for; they happen in that order
  uint64_t exchanges_done = 0;  // guarded by `mutex`
  uint32_t splits = 0;
  uint32_t shrinks = 0;
  uint32_t grows = 0;
  std::atomic<bool> suspended{false};
  std::atomic<uint64_t> calls{0};  // enqueued by the host
  void* profiler = nullptr;        // what its plugin knows it by

  std::mutex mutex;  // guards what follows up to the blank line; `changed` goes with it
  std::condition_variable changed;
  std::shared_ptr<softgpu::BackgroundJob> background;
  int users = 0;           // initialisations and group jobs inside the communicator
  int outstanding = 0;     // kernels enqueued and not finished
  int captured = 0;        // kernels held by graphs
  bool running = false;    // a kernel of this communicator is on the device
  uint64_t launched = 0;   // kernels launched outside graphs; they run in this order
  uint64_t completed = 0;  // of those, how many are over
  std::set<uint64_t> completed_early;
  std::vector<softgpu::UserReduction> reductions;

  // Owned by the running kernel.
  uint64_t round = 0;
  uint64_t kernel_calls = 0;
  std::vector<uint64_t> sends;     // finished, per peer
  std::vector<uint64_t> receives;  // finished, per peer

  bool aborted() const { return abort.load(std::memory_order_acquire) != 0; }
};

namespace softgpu {

// Counts fork()s without exec on the child's side: a communicator of another generation is unusable.
uint32_t ForkGeneration();

// New communicators come from a pool: a handle is recycled as with malloc, but reading the magic of a freed one is
// safe.
ncclComm* NewComm();
void FreeComm(ncclComm* comm);

// Makes everything that waits on behalf of this rank look at comm->abort again.
void SetAbort(ncclComm* comm, uint32_t value);

// NCCL's checks at the head of its functions.
ncclResult_t PointerCheck(const void* pointer, const char* function, const char* name);
ncclResult_t CommCheck(ncclComm* comm, const char* function, const char* name);
ncclResult_t EnsureReady(ncclComm* comm);

// Waits until no kernel of this rank is enqueued.
void WaitForKernels(ncclComm* comm);

// The same, and until no graph holds a kernel of it.
void WaitQuiescent(ncclComm* comm);

// Frees the communicator as ncclCommDestroy and ncclCommAbort do, once nothing of it runs any more.
void Reclaim(ncclComm* comm);

// Lets a background job end and drops it.
void FinishBackground(ncclComm* comm);

// Joins the ranks of `comm`, whose rank, nranks and identity are set; blocks until all are there or it is aborted.
ncclResult_t Connect(ncclComm* comm);

// Exchange `ordinal` (taken from comm->exchanges at the call) between the hosts of all ranks: `size` bytes of each into
// `all`. ncclInternalError if aborted.
ncclResult_t ExchangeHosts(ncclComm* comm, uint64_t ordinal, const void* mine, void* all, size_t size);

// The user-made reduction with handle `op`; false if unknown to `comm`.
bool FindUserReduction(ncclComm* comm, int op, UserReduction* found);

// Between a user-made reduction's index (counted after the built-in ones) and its handle, both ways.
ncclRedOp_t MangleReduction(const ncclComm* comm, int op);

}  // namespace softgpu

#endif  // SOFTGPU_NCCL_COMM_H_
