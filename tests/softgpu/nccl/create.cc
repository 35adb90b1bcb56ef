#include "create.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstring>

#include "driver.h"
#include "group.h"
#include "status.h"

namespace softgpu {
namespace {

// Kinds of children, for DeriveIdentity.
constexpr uint64_t kSplitChild = 1;
constexpr uint64_t kShrinkChild = 2;
constexpr uint64_t kGrowChild = 3;

// Keeps a communicator from being freed by an abort in another thread while this one is at work in it.
class Use {
 public:
  explicit Use(ncclComm* comm) : comm_(comm) {
    const std::lock_guard lock(comm_->mutex);
    ++comm_->users;
  }
  ~Use() {
    const std::lock_guard lock(comm_->mutex);
    --comm_->users;
    comm_->changed.notify_all();
  }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

 private:
  ncclComm* comm_;
};

ncclResult_t MakeComm(int rank, int nranks, int device, const void* config, ncclComm** made) {
  Config parsed;
  if (const ncclResult_t result = ParseConfig(config, &parsed); result != ncclSuccess) return result;
  const CUcontext context = PrimaryContext(device);
  if (!context) return ncclUnhandledCudaError;
  ncclComm* comm = NewComm();
  comm->config = parsed;
  comm->rank = rank;
  comm->nranks = nranks;
  comm->device = device;
  comm->context = context;
  *made = comm;
  return ncclSuccess;
}

// NCCL stores the handle of a finished job with release too (ncclCommInitRankFunc): the caller's pointer may be looked
// at meanwhile, by who wraps the call or is to abort it.
void Give(ncclComm_t* handle, ncclComm* comm) { std::atomic_ref(*handle).store(comm, std::memory_order_release); }

ncclComm* MakeChild(const ncclComm* parent, const Config& config) {
  ncclComm* child = NewComm();
  child->config = config;
  child->device = parent->device;
  child->context = parent->context;
  return child;
}

// config == NULL: the parent's.
ncclResult_t ChildConfig(const ncclComm* parent, const void* user, Config* config) {
  if (user) return ParseConfig(user, config);
  *config = parent->config;
  return ncclSuccess;
}

struct ColorKey {
  int color;
  int key;
};

// Ranks of the parent with this color, ordered by key, then by rank. All ranks of the parent take part.
ncclResult_t MembersOfSplit(ncclComm* parent, uint64_t exchange, ColorKey mine, std::vector<int>* members) {
  std::vector<ColorKey> all(parent->nranks);
  const ncclResult_t result = ExchangeHosts(parent, exchange, &mine, all.data(), sizeof mine);
  if (result != ncclSuccess) return result;
  for (int r = 0; r < parent->nranks; ++r) {
    if (all[r].color == mine.color) members->push_back(r);
  }
  std::stable_sort(members->begin(), members->end(), [&](int a, int b) { return all[a].key < all[b].key; });
  return ncclSuccess;
}

// Gives `child` its place among `members` (ranks of the parent) and waits for the others.
ncclResult_t ConnectChild(ncclComm* parent, ncclComm* child, const std::vector<int>& members,
                          const Identity& identity) {
  child->nranks = static_cast<int>(members.size());
  child->rank = static_cast<int>(std::find(members.begin(), members.end(), parent->rank) - members.begin());
  child->identity = identity;
  return Connect(child);
}

ncclResult_t CheckChild(ncclComm* parent, const void* handle, const char* function) {
  ncclResult_t result = CommCheck(parent, function, "comm");
  if (result == ncclSuccess) result = PointerCheck(handle, function, "newcomm");
  return result;
}

}  // namespace

ncclResult_t InitRank(const Newcomer& newcomer) {
  ncclComm* comm = nullptr;
  ncclResult_t result = ncclSuccess;
  if (newcomer.ids <= 0 || newcomer.ids > newcomer.nranks) {
    Warn("improper usage of ncclCommInitRank: nId = %d, nranks=%d", newcomer.ids, newcomer.nranks);
    return ncclInvalidArgument;
  }
  if (!GetDriver()) result = ncclUnhandledCudaError;
  if (result == ncclSuccess) result = PointerCheck(newcomer.handle, "CommInitRank", "newcomm");
  if (result == ncclSuccess) result = PointerCheck(newcomer.config, "CommInitRank", "config");
  if (result == ncclSuccess && (newcomer.nranks < 1 || newcomer.rank < 0 || newcomer.rank >= newcomer.nranks)) {
    Warn("Invalid rank requested : %d/%d", newcomer.rank, newcomer.nranks);
    result = ncclInvalidArgument;
  }
  if (result == ncclSuccess) {
    result = MakeComm(newcomer.rank, newcomer.nranks, newcomer.device, newcomer.config, &comm);
  }
  if (result == ncclSuccess) {
    // The first id alone names the communicator, in NCCL too (commHash).
    comm->identity = HashIdentity(newcomer.id[0].internal, sizeof newcomer.id[0].internal);
    Give(newcomer.handle, comm);
    result = GroupRun(comm, [comm] {
      const Use use(comm);
      return Connect(comm);
    });
  } else if (newcomer.handle) {
    *newcomer.handle = nullptr;
  }
  return GroupError(result);
}

ncclResult_t Split(ncclComm* parent, int color, int key, ncclComm_t* handle, const void* config) {
  ncclResult_t result = CheckChild(parent, handle, "ncclCommSplit");
  if (result == ncclSuccess) result = EnsureReady(parent);
  if (result != ncclSuccess) return result;
  *handle = nullptr;  // until the split is complete
  Config parsed;
  ncclComm* child = nullptr;
  if (color != NCCL_SPLIT_NOCOLOR) {
    result = ChildConfig(parent, config, &parsed);
    if (result != ncclSuccess) return result;
    child = MakeChild(parent, parsed);
  }
  const uint64_t ordinal = ++parent->splits;
  const uint64_t exchange = parent->exchanges++;
  return GroupRun(parent, [=] {
    const Use use(parent);
    std::vector<int> members;
    ncclResult_t done = MembersOfSplit(parent, exchange, {color, key}, &members);
    if (done == ncclSuccess && child) {
      done = ConnectChild(parent, child, members, DeriveIdentity(parent->identity, kSplitChild, ordinal, color));
    }
    Give(handle, child);
    return done;
  });
}

ncclResult_t Shrink(ncclComm* parent, int* excluded, int nexcluded, ncclComm_t* handle, const void* config, int flags) {
  ncclResult_t result = CheckChild(parent, handle, "ncclCommShrink");
  if (result == ncclSuccess) result = PointerCheck(excluded, "ncclCommShrink", "excludeRanksList");
  if (result != ncclSuccess) return result;
  if (flags & NCCL_SHRINK_ABORT) {
    SetAbort(parent, 1);
    WaitForKernels(parent);
    SetAbort(parent, 0);
  }
  if (nexcluded <= 0) return ncclInvalidArgument;
  std::sort(excluded, excluded + nexcluded);
  if (std::binary_search(excluded, excluded + nexcluded, parent->rank)) return ncclInvalidArgument;
  result = EnsureReady(parent);
  Config parsed;
  if (result == ncclSuccess) result = ChildConfig(parent, config, &parsed);
  if (result != ncclSuccess) return result;
  *handle = nullptr;
  std::vector<int> members;
  for (int r = 0; r < parent->nranks; ++r) {
    if (!std::binary_search(excluded, excluded + nexcluded, r)) members.push_back(r);
  }
  ncclComm* child = MakeChild(parent, parsed);
  const uint64_t ordinal = ++parent->shrinks;
  return GroupRun(parent, [=] {
    const Use use(parent);
    const ncclResult_t done =
        ConnectChild(parent, child, members, DeriveIdentity(parent->identity, kShrinkChild, ordinal, 0));
    Give(handle, child);
    return done;
  });
}

ncclUniqueId GrowId(const ncclComm* parent) {
  const Identity identity = DeriveIdentity(parent->identity, kGrowChild, parent->grows + 1, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(identity.low));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ncclUniqueId id{};
  std::memcpy(id.internal, &identity.high, sizeof identity.high);
  std::memcpy(id.internal + sizeof identity.high, &address, sizeof address);
  return id;
}

ncclResult_t Grow(ncclComm* parent, int nranks, const ncclUniqueId* id, int rank, ncclComm_t* handle,
                  const void* config) {
  if (parent) {
    ncclResult_t result = CommCheck(parent, "ncclCommGrow", "comm");
    if (result == ncclSuccess) result = EnsureReady(parent);
    if (result != ncclSuccess) return result;
    if (rank != -1) {
      Warn("ncclCommGrow: existing ranks must pass rank=-1, got %d", rank);
      return ncclInvalidArgument;
    }
  } else if (rank < 0 || !id || rank >= nranks) {
    Warn("ncclCommGrow: new ranks must pass a valid rank and a uniqueId, got %d", rank);
    return ncclInvalidArgument;
  }
  int device = 0;
  if (!GetDriver() || (!parent && !CurrentDevice(&device))) return ncclUnhandledCudaError;
  ncclComm* comm = nullptr;
  const int own_rank = parent ? parent->rank : rank;
  const ncclResult_t result = MakeComm(own_rank, nranks, parent ? parent->device : device, config, &comm);
  if (result != ncclSuccess) return result;
  if (parent && !config) comm->config = parent->config;
  const ncclUniqueId name = parent ? GrowId(parent) : *id;
  if (parent) ++parent->grows;
  comm->identity = HashIdentity(name.internal, sizeof name.internal);
  Give(handle, comm);
  return GroupRun(comm, [comm] {
    const Use use(comm);
    return Connect(comm);
  });
}

}  // namespace softgpu
