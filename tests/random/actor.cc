#include "actor.h"

#include <unistd.h>

#include <cstdlib>

#include "tools.h"

namespace random_program {
namespace {

constexpr std::size_t kArena = std::size_t{96} << 20;

}  // namespace

Actor::Actor(const Lane& lane, int lane_number, int rank, std::uint64_t seed)
    : lane_(&lane),
      lane_number_(lane_number),
      rank_(rank),
      seed_(seed),
      filled_(Scramble(seed * 4096 + static_cast<std::uint64_t>(lane_number) * 64 + static_cast<std::uint64_t>(rank))),
      communicators_(lane.communicators.size()),
      streams_(lane.streams) {
  for (cudaStream_t& stream : streams_) CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CUDA(cudaStreamCreateWithFlags(&copies_, cudaStreamNonBlocking));
  if (lane.nccl_memory)
    NCCL(ncclMemAlloc(reinterpret_cast<void**>(&arena_), kArena));
  else
    CUDA(cudaMalloc(reinterpret_cast<void**>(&arena_), kArena));
}

void Actor::Free() {
  for (const cudaStream_t stream : streams_) CUDA(cudaStreamDestroy(stream));
  CUDA(cudaStreamDestroy(copies_));
  if (lane_->nccl_memory)
    NCCL(ncclMemFree(arena_));
  else
    CUDA(cudaFree(arena_));
}

int Actor::RankIn(int communicator) const {
  const std::vector<int>& members = lane_->communicators[communicator].members;
  for (std::size_t i = 0; i < members.size(); ++i)
    if (members[i] == rank_) return static_cast<int>(i);
  return -1;
}

// Small numbers, exact in every datatype's range, so that no sum or product turns into something whose bits vary.
char* Actor::Buffer(std::size_t bytes) {
  const std::size_t size = (bytes + 511) & ~std::size_t{255};
  if (used_ + size > kArena) Wait();
  char* device = arena_ + used_;
  used_ += size;
  std::vector<unsigned char> content(bytes);
  std::uint64_t state = filled_ += 0x9e3779b97f4a7c15ull;
  for (unsigned char& byte : content) {
    state = Scramble(state + 1);
    byte = static_cast<unsigned char>(state & 0x3f);
  }
  if (bytes) CUDA(cudaMemcpyAsync(device, content.data(), bytes, cudaMemcpyHostToDevice, copies_));
  CUDA(cudaStreamSynchronize(copies_));
  results_.push_back({device, bytes});
  return device;
}

void Actor::Wait() {
  for (const cudaStream_t stream : streams_) CUDA(cudaStreamSynchronize(stream));
  CUDA(cudaStreamSynchronize(nullptr));
  for (const Result& result : results_) {
    std::vector<unsigned char> content(result.bytes);
    if (result.bytes)
      CUDA(cudaMemcpyAsync(content.data(), result.device, result.bytes, cudaMemcpyDeviceToHost, copies_));
    CUDA(cudaStreamSynchronize(copies_));
    for (const unsigned char byte : content) hash_ = (hash_ ^ byte) * 0x100000001b3ull;
  }
  results_.clear();
  used_ = 0;
}

void Actor::Settle(ncclResult_t result, ncclComm_t communicator) {
  if (!lane_->non_blocking) return NCCL(result);
  if (result != ncclSuccess && result != ncclInProgress) NCCL(result);
  ncclResult_t state = ncclInProgress;
  while (true) {
    NCCL(ncclCommGetAsyncError(communicator, &state));
    if (state != ncclInProgress) break;
    usleep(100);
  }
  NCCL(state);
}

void Actor::GroupEnd(const std::vector<int>& communicators) {
  const ncclResult_t result = ncclGroupEnd();
  if (!lane_->non_blocking || communicators.empty()) return NCCL(result);
  for (const int communicator : communicators) Settle(result, communicators_[communicator]);
}

void Actor::One(const Call& call) {
  const ncclComm_t communicator = communicators_[call.communicator];
  const std::size_t size = lane_->communicators[call.communicator].members.size();
  const std::size_t rank = static_cast<std::size_t>(RankIn(call.communicator));
  const std::size_t bytes = call.count * kBytes[call.dtype];
  const auto dtype = static_cast<ncclDataType_t>(call.dtype);
  const cudaStream_t stream = Stream(call.stream);
  auto reduction = static_cast<ncclRedOp_t>(call.reduction);
  if (call.reduction == kUserMade) {
    alignas(8) const unsigned char two[8] = {2};
    NCCL(ncclRedOpCreatePreMulSum(&reduction, const_cast<unsigned char*>(two), dtype, ncclScalarHostImmediate,
                                  communicator));
  }
  const bool gathers = call.op == Op::kAllGather || call.op == Op::kGather || call.op == Op::kAlltoAll;
  const bool scatters = call.op == Op::kReduceScatter || call.op == Op::kScatter || call.op == Op::kAlltoAll;
  char* send = Buffer(scatters ? bytes * size : bytes);
  char* receive = Buffer(gathers ? bytes * size : bytes);
  if (call.in_place) {
    if (call.op == Op::kAllGather) send = receive + rank * bytes;
    if (call.op == Op::kReduceScatter) receive = send + rank * bytes;
    if (call.op == Op::kAllReduce || call.op == Op::kReduce || call.op == Op::kBroadcast) receive = send;
  }
  ncclResult_t result = ncclSuccess;
  switch (call.op) {
    case Op::kAllReduce:
      result = ncclAllReduce(send, receive, call.count, dtype, reduction, communicator, stream);
      break;
    case Op::kBroadcast:
      result = ncclBroadcast(send, receive, call.count, dtype, call.root, communicator, stream);
      break;
    case Op::kBcast: result = ncclBcast(receive, call.count, dtype, call.root, communicator, stream); break;
    case Op::kReduce:
      result = ncclReduce(send, receive, call.count, dtype, reduction, call.root, communicator, stream);
      break;
    case Op::kReduceScatter:
      result = ncclReduceScatter(send, receive, call.count, dtype, reduction, communicator, stream);
      break;
    case Op::kAllGather: result = ncclAllGather(send, receive, call.count, dtype, communicator, stream); break;
    case Op::kAlltoAll: result = ncclAlltoAll(send, receive, call.count, dtype, communicator, stream); break;
    case Op::kGather: result = ncclGather(send, receive, call.count, dtype, call.root, communicator, stream); break;
    case Op::kScatter: result = ncclScatter(send, receive, call.count, dtype, call.root, communicator, stream); break;
    case Op::kCount: break;
  }
  if (result != ncclSuccess && result != ncclInProgress) NCCL(result);
  if (call.reduction == kUserMade) {
    Settle(result, communicator);
    NCCL(ncclRedOpDestroy(reduction, communicator));
  }
}

void Actor::Calls(const Step& step) {
  std::vector<int> mine;
  if (step.grouped) NCCL(ncclGroupStart());
  if (step.nested) NCCL(ncclGroupStart());
  for (const Call& call : step.calls) {
    if (RankIn(call.communicator) < 0) continue;
    One(call);
    mine.push_back(call.communicator);
  }
  if (step.nested) NCCL(ncclGroupEnd());
  if (step.grouped)
    GroupEnd(mine);
  else if (!mine.empty())
    Settle(ncclSuccess, communicators_[mine[0]]);
}

void Actor::Transfers(const Step& step) {
  const int rank = RankIn(step.communicator);
  if (rank < 0) return;
  const ncclComm_t communicator = communicators_[step.communicator];
  const cudaStream_t stream = Stream(step.stream);
  if (step.grouped) NCCL(ncclGroupStart());
  ncclResult_t result = ncclSuccess;
  for (const Transfer& transfer : step.transfers) {
    if (transfer.from == rank) {
      const char* buffer = Buffer(transfer.count * kBytes[transfer.dtype]);
      result = ncclSend(buffer, transfer.count, static_cast<ncclDataType_t>(transfer.dtype), transfer.to, communicator,
                        stream);
      if (result != ncclSuccess && result != ncclInProgress) NCCL(result);
    }
    if (transfer.to == rank) {
      char* buffer = Buffer(transfer.receive_count * kBytes[transfer.receive_dtype]);
      result = ncclRecv(buffer, transfer.receive_count, static_cast<ncclDataType_t>(transfer.receive_dtype),
                        transfer.from, communicator, stream);
      if (result != ncclSuccess && result != ncclInProgress) NCCL(result);
    }
  }
  if (step.grouped)
    GroupEnd({step.communicator});
  else
    Settle(result, communicator);
}

void Actor::Split(const Step& step) {
  const int rank = RankIn(step.communicator);
  if (rank < 0) return;
  const int color = step.colors[rank];
  ncclComm_t made = nullptr;
  const ncclComm_t parent = communicators_[step.communicator];
  Settle(ncclCommSplit(parent, color < 0 ? NCCL_SPLIT_NOCOLOR : color, step.keys[rank], &made, nullptr), parent);
  if (color < 0) return;
  if (lane_->non_blocking) Settle(ncclSuccess, made);
  communicators_[step.made[color]] = made;
}

void Actor::Create(const Step& step, std::size_t number) {
  const int which = step.made.empty() ? 0 : step.made[0];
  const int rank = RankIn(which);
  if (rank < 0) return;
  const ncclUniqueId id = SharedId("id." + std::to_string(lane_number_) + "." + std::to_string(number), rank == 0);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = lane_->non_blocking ? 0 : 1;
  const int size = static_cast<int>(lane_->communicators[which].members.size());
  ncclComm_t* made = &communicators_[which];
  // Both spellings of the same, told apart by the communicator so that all its ranks agree.
  const bool plain = !lane_->non_blocking && which % 2 == 0;
  const ncclResult_t result =
      plain ? ncclCommInitRank(made, size, id, rank) : ncclCommInitRankConfig(made, size, id, rank, &config);
  Settle(result, *made);
}

void Actor::Shrink(const Step& step) {
  const int rank = RankIn(step.communicator);
  if (rank < 0 || rank == step.excluded[0]) return;
  // All work on the parent has to be done before it is shrunk.
  for (const cudaStream_t stream : streams_) CUDA(cudaStreamSynchronize(stream));
  CUDA(cudaStreamSynchronize(nullptr));
  const ncclComm_t parent = communicators_[step.communicator];
  ncclComm_t made = nullptr;
  std::vector<int> excluded = step.excluded;
  Settle(
      ncclCommShrink(parent, excluded.data(), static_cast<int>(excluded.size()), &made, nullptr, NCCL_SHRINK_DEFAULT),
      parent);
  if (lane_->non_blocking) Settle(ncclSuccess, made);
  communicators_[step.made[0]] = made;
}

void Actor::Destroy(const Step& step) {
  if (RankIn(step.communicator) < 0) return;
  const ncclComm_t communicator = communicators_[step.communicator];
  if (lane_->non_blocking || step.communicator % 2) Settle(ncclCommFinalize(communicator), communicator);
  NCCL(ncclCommDestroy(communicator));
  communicators_[step.communicator] = nullptr;
}

void Actor::Ask(const Step& step) {
  const int rank = RankIn(step.communicator);
  if (rank < 0) return;
  int found = -1, size = 0, device = -1;
  const ncclComm_t communicator = communicators_[step.communicator];
  NCCL(ncclCommUserRank(communicator, &found));
  NCCL(ncclCommCount(communicator, &size));
  NCCL(ncclCommCuDevice(communicator, &device));
  if (found != rank || size != static_cast<int>(lane_->communicators[step.communicator].members.size()))
    Die("a communicator does not know itself");
}

void Actor::Register(const Step& step) {
  if (RankIn(step.communicator) < 0) return;
  void* handle = nullptr;
  NCCL(ncclCommRegister(communicators_[step.communicator], arena_, kArena, &handle));
  NCCL(ncclCommDeregister(communicators_[step.communicator], handle));
}

void Actor::Take(const Step& step, std::size_t number) {
  switch (step.kind) {
    case Step::Kind::kCalls: return Calls(step);
    case Step::Kind::kTransfers: return Transfers(step);
    case Step::Kind::kSplit: return Split(step);
    case Step::Kind::kCreate: return Create(step, number);
    case Step::Kind::kShrink: return Shrink(step);
    case Step::Kind::kDestroy: return Destroy(step);
    case Step::Kind::kFork: return Child(step.fork_how);
    case Step::Kind::kWait: return Wait();
    case Step::Kind::kAsk: return Ask(step);
    case Step::Kind::kRegister: return Register(step);
  }
}

void Actor::Run() {
  CUDA(cudaSetDevice(0));
  Step root;
  root.kind = Step::Kind::kCreate;
  Create(root, lane_->steps.size());
  for (std::size_t number = 0; number < lane_->steps.size(); ++number) Take(lane_->steps[number], number);
  Wait();
}

}  // namespace random_program
