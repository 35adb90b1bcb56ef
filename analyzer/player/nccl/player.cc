#include "analyzer/player/nccl/player.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "analyzer/files/input_file.h"
#include "analyzer/files/output_file.h"
#include "analyzer/player/base/pace.h"
#include "analyzer/player/base/values.h"
#include "analyzer/player/nccl/data.h"
#include "analyzer/player/nccl/library.h"
#include "ncclwatch/functions/pattern.h"
#include "ncclwatch/functions/types.h"

namespace ncclwatch::analyzer {
namespace {

using functions::Family;
using functions::Function;
using functions::Pattern;
using player::Communicator;
using player::Listener;
using player::Script;

constexpr std::size_t kMostUnderWay = 4096;      // calls whose data are checked at once
constexpr std::size_t kMostBytes = 1u << 30;     // of their buffers
constexpr std::size_t kMostChecked = 256 << 10;  // bytes of one result that are copied back and looked at

struct Failed {
  std::string what;
};

class NcclPlayer {
 public:
  NcclPlayer(Script* script, Listener* listener) : script_(*script), listener_(*listener) {
    comms_.assign(script_.communicators.size(), nullptr);
  }

  void Play(int device) {
    if (const std::string missing = cu_.Open(); !missing.empty()) throw Failed{missing};
    UseDevice(device);
    BeginCommunicators();
    std::vector<player::Call> calls;
    while (script_.Next(&calls)) {
      for (player::Call& call : calls) {
        pace_.After(call.before_ns);
        call.left_out ? pace_.Wait() : One(call);
        Look();
      }
      calls.clear();
    }
    for (auto& [key, stream] : streams_) Check(cu_.cuStreamSynchronize(stream), "cuStreamSynchronize");
    while (!under_way_.empty()) Look();
  }

 private:
  struct UnderWay {
    player::Call call;
    CUdeviceptr from = 0, into = 0;
    std::size_t into_bytes = 0;
    CUevent began = nullptr, ended = nullptr;
    CUstream stream = nullptr;
  };

  static void Check(CUresult result, const char* what) {
    if (result != CUDA_SUCCESS) throw Failed{fmt::format("{}: CUDA error {}", what, static_cast<int>(result))};
  }
  // What the recorded call returned is no error of ours.
  void Check(ncclResult_t result, const player::Call& call) const {
    if (result == ncclSuccess || result == ncclInProgress || call.as.result == static_cast<int>(result)) return;
    throw Failed{fmt::format("{} (seq {}): {}", functions::FullName(call.as.function), call.as.slot,
                             cu_.ncclGetErrorString(result))};
  }

  void UseDevice(int device) {
    int devices = 0;
    CUdevice chosen = 0;
    CUcontext context = nullptr;
    Check(cu_.cuInit(0), "cuInit");
    Check(cu_.cuDeviceGetCount(&devices), "cuDeviceGetCount");
    if (devices == 0) throw Failed{"there is no GPU"};
    Check(cu_.cuDeviceGet(&chosen, device % devices), "cuDeviceGet");
    Check(cu_.cuDevicePrimaryCtxRetain(&context, chosen), "cuDevicePrimaryCtxRetain");
    Check(cu_.cuCtxSetCurrent(context), "cuCtxSetCurrent");
  }

  // As the program had them: calls on different streams do not wait for one another.
  CUstream StreamOf(const player::Call& call) {
    const auto [found, made] = streams_.emplace(call.as.stream, nullptr);
    if (made) Check(cu_.cuStreamCreate(&found->second, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    return found->second;
  }

  void One(const player::Call& call) {
    const functions::FunctionInfo* const info = functions::Find(call.as.function);
    if (!info) return listener_.NotPlayed(call);
    switch (info->family) {
      case Family::kGroup: return Group(call);
      case Family::kCreation: return Make(call);
      case Family::kLifecycle: return Free(call);
      case Family::kCollective:
      case Family::kRooted:
      case Family::kPointToPoint: return Communicate(call);
      case Family::kOneSided: return listener_.NotPlayed(call);
      default: return;  // it moves nothing between ranks
    }
  }

  void Group(const player::Call& call) {
    if (call.as.function == Function::ncclGroupStart) {
      pace_.Timed([&] { Check(cu_.ncclGroupStart(), call); });
      ++depth_;
      return;
    }
    if (depth_ == 0) return;
    --depth_;
    pace_.Timed([&] { Check(cu_.ncclGroupEnd(), call); });
    if (depth_ > 0) return;
    const bool alone = grouped_.size() == 1;  // several share one kernel: what each of them took is not known
    for (UnderWay& one : grouped_) {
      if (!alone) cu_.cuEventDestroy(std::exchange(one.began, nullptr));
      one.ended = Event(one.stream);
      under_way_.push_back(std::move(one));
    }
    grouped_.clear();
  }

  // ---- communicators ------------------------------------------------------------------------------------------------

  // Those that no call of the list makes, as in a part of a recording. Every rank makes them in one order.
  void BeginCommunicators() {
    for (std::size_t i = 0; i < comms_.size(); ++i) {
      const Communicator& one = script_.communicators[i];
      if (one.own < 0 || one.is != Communicator::Is::kOfMembers) continue;
      const ncclUniqueId id = IdOf(static_cast<int>(i), one);
      const ncclResult_t result = cu_.ncclCommInitRank(&comms_[i], static_cast<int>(one.members.size()), id, one.own);
      if (result != ncclSuccess) throw Failed{fmt::format("ncclCommInitRank: {}", cu_.ncclGetErrorString(result))};
    }
  }

  void Make(const player::Call& call) {
    if (call.as.function == Function::ncclCommSplit) return Split(call);
    if (call.made < 0) return listener_.NotPlayed(call);
    const Communicator& wanted = script_.communicators[static_cast<std::size_t>(call.made)];
    const ncclUniqueId id = IdOf(call.made, wanted);
    ncclComm_t made = nullptr;
    // The rank's own idea of the size: it may have been wrong.
    const int size = static_cast<int>(call.claimed_size != 0 ? call.claimed_size : wanted.members.size());
    pace_.Timed([&] { Check(cu_.ncclCommInitRank(&made, size, id, wanted.own), call); });
    comms_[static_cast<std::size_t>(call.made)] = made;
  }

  void Split(const player::Call& call) {
    const ncclComm_t parent = On(call);
    if (!parent || !cu_.ncclCommSplit) return listener_.NotPlayed(call);
    ncclComm_t made = nullptr;
    const int color = call.made < 0 ? NCCL_SPLIT_NOCOLOR : call.made;
    const int key = call.made < 0 ? 0 : script_.communicators[static_cast<std::size_t>(call.made)].own;
    pace_.Timed([&] { Check(cu_.ncclCommSplit(parent, color, key, &made, nullptr), call); });
    if (call.made >= 0) comms_[static_cast<std::size_t>(call.made)] = made;
  }

  void Free(const player::Call& call) {
    const ncclComm_t comm = On(call);
    if (!comm) return;
    switch (call.as.function) {
      case Function::ncclCommFinalize: pace_.Timed([&] { Check(cu_.ncclCommFinalize(comm), call); }); return;
      case Function::ncclCommDestroy: pace_.Timed([&] { Check(cu_.ncclCommDestroy(comm), call); }); break;
      case Function::ncclCommAbort: pace_.Timed([&] { Check(cu_.ncclCommAbort(comm), call); }); break;
      default: return;
    }
    comms_[static_cast<std::size_t>(call.comm)] = nullptr;
  }

  ncclComm_t On(const player::Call& call) const {
    return call.comm < 0 ? nullptr : comms_[static_cast<std::size_t>(call.comm)];
  }
  const Communicator& Of(const player::Call& call) const {
    return script_.communicators[static_cast<std::size_t>(call.comm)];
  }

  // Its first member makes the id, the others find it in the directory.
  ncclUniqueId IdOf(int comm, const Communicator& wanted) const {
    const std::string path = fmt::format("{}/replay.id.{}", script_.directory, comm);
    ncclUniqueId id;
    if (wanted.own == 0) {
      if (const ncclResult_t result = cu_.ncclGetUniqueId(&id); result != ncclSuccess)
        throw Failed{fmt::format("ncclGetUniqueId: {}", cu_.ncclGetErrorString(result))};
      if (const absl::Status written = WriteFile(path, {id.internal, sizeof id.internal}); !written.ok())
        throw Failed{std::string(written.message())};
      return id;
    }
    while (true) {
      InputFile file(path);
      if (file.read(id.internal, sizeof id.internal)) return id;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

  // ---- collectives and messages -------------------------------------------------------------------------------------

  void Communicate(const player::Call& call) {
    const ncclComm_t comm = On(call);
    const Pattern pattern = functions::PatternOfNccl(call.as.function);
    const bool known = pattern != Pattern::kNone && pattern != Pattern::kAllToAll && pattern != Pattern::kGather &&
                       pattern != Pattern::kScatter;
    if (!comm || !known) return listener_.NotPlayed(call);
    UnderWay one{.call = call, .stream = StreamOf(call)};
    const std::size_t element = functions::DatatypeBytes(call.as.dtype);
    const Amounts amounts = AmountsOf(call, pattern, Of(call));
    one.into_bytes = amounts.into * element;
    one.from = Source(call, pattern, amounts.from * element, amounts.from);
    one.into = Allocate(one.into_bytes);
    if (call.never_begins || call.never_ends) StallStream(one.stream);
    one.began = Event(one.stream);
    pace_.Timed([&] { Check(Launch(call, pattern, one, comm), call); });
    if (depth_ > 0) return grouped_.push_back(std::move(one));
    one.ended = Event(one.stream);
    under_way_.push_back(std::move(one));
  }

  CUevent Event(CUstream stream) {
    CUevent event = nullptr;
    Check(cu_.cuEventCreate(&event, CU_EVENT_DEFAULT), "cuEventCreate");
    Check(cu_.cuEventRecord(event, stream), "cuEventRecord");
    return event;
  }

  // What held the recorded GPU up is not known; a function of the host that never returns does the same.
  void StallStream(CUstream stream) {
    const auto forever = [](void*) {
      std::mutex mutex;
      std::unique_lock lock(mutex);
      std::condition_variable never;
      never.wait(lock, [] { return false; });
    };
    Check(cu_.cuLaunchHostFunc(stream, forever, nullptr), "cuLaunchHostFunc");
  }

  ncclResult_t Launch(const player::Call& call, Pattern pattern, const UnderWay& one, ncclComm_t comm) {
    auto* const from = reinterpret_cast<void*>(one.from);
    auto* const into = reinterpret_cast<void*>(one.into);
    const auto type = static_cast<ncclDataType_t>(call.as.dtype);
    const std::size_t count = call.as.count;
    const int root = call.as.root;
    const auto stream = reinterpret_cast<cudaStream_t>(one.stream);
    switch (pattern) {
      case Pattern::kBroadcast:
        return call.as.function == Function::ncclBcast
                   ? cu_.ncclBcast(one.from != 0 ? from : into, count, type, root, comm, stream)
                   : cu_.ncclBroadcast(one.from != 0 ? from : into, into, count, type, root, comm, stream);
      case Pattern::kReduce: return cu_.ncclReduce(from, into, count, type, Reducing(call, comm), root, comm, stream);
      case Pattern::kReduceScatter:
        return cu_.ncclReduceScatter(from, into, count, type, Reducing(call, comm), comm, stream);
      case Pattern::kAllGather: return cu_.ncclAllGather(from, into, count, type, comm, stream);
      case Pattern::kSend: return cu_.ncclSend(from, count, type, root, comm, stream);
      case Pattern::kReceive: return cu_.ncclRecv(into, count, type, root, comm, stream);
      default: return cu_.ncclAllReduce(from, into, count, type, Reducing(call, comm), comm, stream);
    }
  }

  // A reduction of the user's making multiplies first: by one, here.
  ncclRedOp_t Reducing(const player::Call& call, ncclComm_t comm) {
    if (call.as.reduction != format::kUserReduction) return static_cast<ncclRedOp_t>(call.as.reduction);
    const auto [found, made] = own_.emplace(std::pair(comm, call.as.dtype), ncclSum);
    if (made) {
      std::uint64_t scalar = 0;
      player::FillNumbers(&scalar, 1, call.as.dtype, 0, 1);
      Check(cu_.ncclRedOpCreatePreMulSum(&found->second, &scalar, static_cast<ncclDataType_t>(call.as.dtype),
                                         ncclScalarHostImmediate, comm),
            call);
    }
    return found->second;
  }

  // ---- data ---------------------------------------------------------------------------------------------------------

  CUdeviceptr Allocate(std::size_t bytes) {
    if (bytes == 0) return 0;
    auto& free = free_[bytes];
    if (!free.empty()) {
      const CUdeviceptr found = free.back();
      free.pop_back();
      return found;
    }
    CUdeviceptr made = 0;
    while (allocated_ + bytes > kMostBytes && !under_way_.empty()) Retire();
    Check(cu_.cuMemAlloc(&made, bytes), "cuMemAlloc");
    allocated_ += bytes;
    return made;
  }

  // What this rank sends in calls of a kind is always the same, and only read.
  CUdeviceptr Source(const player::Call& call, Pattern pattern, std::size_t bytes, std::size_t elements) {
    if (bytes == 0) return 0;
    const bool reduces =
        pattern == Pattern::kAllReduce || pattern == Pattern::kReduce || pattern == Pattern::kReduceScatter;
    const auto [found, made] = sources_.emplace(SourceKey{call.comm, bytes, reduces ? call.as.dtype : format::kNoType,
                                                          reduces ? call.as.reduction : std::uint8_t{0}},
                                                0);
    if (!made) return found->second;
    std::vector<char> data(bytes);
    const int own = Of(call).own;
    reduces ? player::FillNumbers(data.data(), elements, call.as.dtype, KnownReduction(call.as.reduction), own)
            : player::FillBytes(data.data(), bytes, own);
    Check(cu_.cuMemAlloc(&found->second, bytes), "cuMemAlloc");
    Check(cu_.cuMemcpyHtoD(found->second, data.data(), bytes), "cuMemcpyHtoD");
    return found->second;
  }

  // Those that are over are checked, in order.
  void Look() {
    if (depth_ > 0) return;  // inside a group nothing may wait
    while (under_way_.size() > kMostUnderWay) Retire();
    while (!under_way_.empty() && cu_.cuEventQuery(under_way_.front().ended) == CUDA_SUCCESS) Finish();
  }

  // Room is needed, and the oldest call is not over: it is not checked.
  void Retire() {
    if (cu_.cuEventQuery(under_way_.front().ended) == CUDA_SUCCESS) return Finish();
    listener_.Took(under_way_.front().call, 0);
    under_way_.pop_front();  // its buffer stays with the GPU
  }

  void Finish() {
    UnderWay one = std::move(under_way_.front());
    under_way_.pop_front();
    float milliseconds = 0;
    const bool timed = one.began && cu_.cuEventElapsedTime(&milliseconds, one.began, one.ended) == CUDA_SUCCESS;
    listener_.Took(one.call, timed ? static_cast<std::int64_t>(static_cast<double>(milliseconds) * 1e6) : 0);
    listener_.Arrived(one.call, Data(one));
    for (const CUevent event : {one.began, one.ended})
      if (event) cu_.cuEventDestroy(event);
    if (one.into != 0) free_[one.into_bytes].push_back(one.into);
  }

  Listener::Data Data(const UnderWay& one) {
    const std::size_t element = functions::DatatypeBytes(one.call.as.dtype);
    if (one.into == 0 || element == 0) return Listener::Data::kNotChecked;
    const bool whole = functions::PatternOfNccl(one.call.as.function) == Pattern::kAllGather;
    std::vector<char> data(whole ? one.into_bytes : std::min(one.into_bytes, kMostChecked / element * element));
    Check(cu_.cuMemcpyDtoH(data.data(), one.into, data.size()), "cuMemcpyDtoH");
    return CheckArrived(one.call, Of(one.call), data.data(), data.size());
  }

  struct SourceKey {
    int comm;
    std::size_t bytes;
    std::uint8_t dtype, reduction;
    auto operator<=>(const SourceKey&) const = default;  // NOLINT(modernize-use-nullptr): a false alarm
  };

  Library cu_;
  Script& script_;
  Listener& listener_;
  player::Pace pace_;
  std::vector<ncclComm_t> comms_;
  std::map<std::uint64_t, CUstream> streams_;  // by the recorded one
  std::map<SourceKey, CUdeviceptr> sources_;
  std::map<std::size_t, std::vector<CUdeviceptr>> free_;  // by their bytes
  std::size_t allocated_ = 0;
  std::map<std::pair<ncclComm_t, std::uint8_t>, ncclRedOp_t> own_;
  std::deque<UnderWay> under_way_;
  std::vector<UnderWay> grouped_;
  int depth_ = 0;  // of groups
};

}  // namespace

absl::Status PlayNccl(Script* script, Listener* listener, int device) {
  try {
    NcclPlayer(script, listener).Play(device);
  } catch (const Failed& failed) {
    return absl::UnavailableError(failed.what);
  }
  return absl::OkStatus();
}

}  // namespace ncclwatch::analyzer
