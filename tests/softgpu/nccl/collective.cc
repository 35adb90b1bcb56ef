// Collectives in rounds. In a round every rank stages up to kStageBytes in shared memory, says what it is doing
// (Signature), and waits for all; then each reads what it needs. The stage of a round is written again two rounds
// later, when all ranks have passed the round between, hence have finished reading: one barrier a round is enough.
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "futex.h"
#include "kernel.h"

namespace softgpu {
namespace {

// Below this many bytes every rank reduces everything itself (one round); above, each reduces its share and a second
// round hands out the results: n times less arithmetic.
constexpr size_t kOneRoundBytes = size_t{8} * 1024;

// Waiting a few hundred nanoseconds on a free core saves two context switches; with more ranks than cores it is lost
// time.
constexpr int kSpins = 200;

bool WrongResultsWanted() {
  static const bool wanted = [] {
    const char* value = getenv("SOFTGPU_NCCL_MISMATCH");
    return value && std::strcmp(value, "wrong") == 0;
  }();
  return wanted;
}

class Rounds {
 public:
  Rounds(ncclComm* comm, const Collective& collective)
      : comm_(comm), segment_(*comm->segment.load()), signature_(SignatureOf(collective)) {
    sources_.resize(comm->nranks);
  }

  uint8_t* stage() { return segment_.stage(comm_->rank, comm_->round); }

  // After it, source(r) is what rank r staged in this round. False if aborted; a mismatch only ends by that.
  bool Next() {
    const uint64_t round = comm_->round++;
    const uint32_t target = static_cast<uint32_t>(round + 1);
    segment_.slot(comm_->rank).signature[round & 1] = signature_;
    SegmentHeader& header = segment_.header();
    // Acquire-release: the last one to arrive has seen the stages of all, and hands that on through `generation`.
    if (header.arrivals.fetch_add(1, std::memory_order_acq_rel) + 1 == (round + 1) * comm_->nranks) {
      header.generation.store(target, std::memory_order_release);
      FutexWakeAll(&header.generation);
    } else if (!WaitFor(header.generation, target)) {
      return false;
    }
    for (int r = 0; r < comm_->nranks; ++r) {
      if (segment_.slot(r).signature[round & 1] != signature_) return StayStuck(comm_);
      sources_[r] = segment_.stage(r, round);
    }
    ++signature_.step;
    return true;
  }

  const uint8_t* source(int rank) const { return sources_[rank]; }
  const uint8_t* const* sources() const { return sources_.data(); }

 private:
  static Signature SignatureOf(const Collective& c) {
    Signature signature;
    signature.function = static_cast<uint32_t>(c.function);
    signature.datatype = c.datatype;
    // A user-made reduction is known by its kind: its handle and scalar may differ from rank to rank.
    signature.reduction = static_cast<uint32_t>(c.reduction.kind);
    signature.root = c.root;
    signature.count = c.count;
    if (WrongResultsWanted()) {
      signature.count *= DatatypeSize(c.datatype);
      signature.datatype = signature.reduction = 0;
    }
    return signature;
  }

  bool WaitFor(const std::atomic<uint32_t>& generation, uint32_t target) {
    static const int spins = std::thread::hardware_concurrency() > 2 ? kSpins : 0;
    for (int i = 0;; ++i) {
      const uint32_t now = generation.load(std::memory_order_acquire);
      if (static_cast<int32_t>(now - target) >= 0) return true;
      if (i < spins) continue;
      if (comm_->aborted()) return false;
      if (!FutexWait(&generation, now)) LookAfterPeers(comm_);
    }
  }

  ncclComm* comm_;
  Segment& segment_;
  Signature signature_;
  std::vector<const uint8_t*> sources_;
};

const uint8_t* At(const void* base, size_t offset) { return static_cast<const uint8_t*>(base) + offset; }
uint8_t* At(void* base, size_t offset) { return static_cast<uint8_t*>(base) + offset; }

bool Broadcast(ncclComm* comm, const Collective& c) {
  Rounds rounds(comm, c);
  const bool root = comm->rank == c.root;
  for (size_t offset = 0; offset < c.count; offset += kStageBytes) {
    const size_t n = std::min(kStageBytes, c.count - offset);
    if (root) std::memcpy(rounds.stage(), At(c.send, offset), n);
    if (!rounds.Next()) return false;
    if (!root || c.send != c.receive) std::memcpy(At(c.receive, offset), rounds.source(c.root), n);
  }
  return true;
}

bool AllGather(ncclComm* comm, const Collective& c) {
  Rounds rounds(comm, c);
  for (size_t offset = 0; offset < c.count; offset += kStageBytes) {
    const size_t n = std::min(kStageBytes, c.count - offset);
    std::memcpy(rounds.stage(), At(c.send, offset), n);
    if (!rounds.Next()) return false;
    for (int r = 0; r < comm->nranks; ++r) std::memcpy(At(c.receive, r * c.count + offset), rounds.source(r), n);
  }
  return true;
}

bool ReduceToRoot(ncclComm* comm, const Collective& c) {
  Rounds rounds(comm, c);
  const size_t size = DatatypeSize(c.datatype);
  const size_t step = kStageBytes / size;
  for (size_t first = 0; first < c.count; first += step) {
    const size_t n = std::min(step, c.count - first);
    CopyPrepared(rounds.stage(), At(c.send, first * size), n, c.datatype, c.reduction);
    if (!rounds.Next()) return false;
    if (comm->rank == c.root) {
      Reduce(At(c.receive, first * size), rounds.sources(), comm->nranks, n, c.datatype, c.reduction);
    }
  }
  return true;
}

bool ReduceScatter(ncclComm* comm, const Collective& c) {
  Rounds rounds(comm, c);
  const size_t size = DatatypeSize(c.datatype);
  const size_t step = std::max<size_t>(1, kStageBytes / size / comm->nranks);
  std::vector<const uint8_t*> mine(comm->nranks);
  for (size_t first = 0; first < c.count; first += step) {
    const size_t n = std::min(step, c.count - first);
    for (int r = 0; r < comm->nranks; ++r) {
      CopyPrepared(rounds.stage() + r * n * size, At(c.send, (r * c.count + first) * size), n, c.datatype, c.reduction);
    }
    if (!rounds.Next()) return false;
    for (int r = 0; r < comm->nranks; ++r) mine[r] = rounds.source(r) + comm->rank * n * size;
    Reduce(At(c.receive, first * size), mine.data(), comm->nranks, n, c.datatype, c.reduction);
  }
  return true;
}

// Share of rank `r` when n elements are divided among the ranks.
size_t ShareBegin(size_t n, int nranks, int r) { return n * r / nranks; }

bool AllReduce(ncclComm* comm, const Collective& c) {
  Rounds rounds(comm, c);
  const size_t size = DatatypeSize(c.datatype);
  const bool one_round = c.count * size <= kOneRoundBytes;
  const size_t step = kStageBytes / size;
  std::vector<const uint8_t*> mine(comm->nranks);
  for (size_t first = 0; first < c.count; first += step) {
    const size_t n = std::min(step, c.count - first);
    CopyPrepared(rounds.stage(), At(c.send, first * size), n, c.datatype, c.reduction);
    if (!rounds.Next()) return false;
    if (one_round) {
      Reduce(At(c.receive, first * size), rounds.sources(), comm->nranks, n, c.datatype, c.reduction);
      continue;
    }
    const size_t begin = ShareBegin(n, comm->nranks, comm->rank);
    for (int r = 0; r < comm->nranks; ++r) mine[r] = rounds.source(r) + begin * size;
    Reduce(rounds.stage(), mine.data(), comm->nranks, ShareBegin(n, comm->nranks, comm->rank + 1) - begin, c.datatype,
           c.reduction);
    if (!rounds.Next()) return false;
    for (int r = 0; r < comm->nranks; ++r) {
      const size_t from = ShareBegin(n, comm->nranks, r);
      std::memcpy(At(c.receive, (first + from) * size), rounds.source(r),
                  (ShareBegin(n, comm->nranks, r + 1) - from) * size);
    }
  }
  return true;
}

}  // namespace

bool RunCollective(ncclComm* comm, const Collective& c) {
  switch (c.function) {
    case Function::kBroadcast: return Broadcast(comm, c);
    case Function::kReduce: return ReduceToRoot(comm, c);
    case Function::kAllGather: return AllGather(comm, c);
    case Function::kReduceScatter: return ReduceScatter(comm, c);
    case Function::kAllReduce: return AllReduce(comm, c);
  }
  return false;
}

}  // namespace softgpu
