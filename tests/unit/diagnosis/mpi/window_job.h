// A job of MPI whose ranks share a window, and what they do with it.
#pragma once

#include <vector>

#include "ncclwatch/format/mpi_record.h"
#include "ncclwatch/format/stores.h"
#include "tests/unit/support/mpi_job.h"

namespace ncclwatch::testing {

inline constexpr int kUnit = 4;

struct Touch {
  Function function = Function::MPI_Put;
  int target = 0;
  std::uint64_t at = 0;  // in units
  std::uint64_t count = 1;
  format::AccessEpoch epoch = format::AccessEpoch::kFence;
  std::uint8_t reduction = format::kNoReduction;
};

class WindowJob : public MpiJob {
 public:
  explicit WindowJob(int ranks) : MpiJob(ranks), window_(MpiComm(Range(0, ranks))), synchronized_(ranks, 0) {
    for (int rank = 0; rank < ranks; ++rank) {
      Entry(rank, window_).flags |= format::kCommWindow;
      Entry(rank, window_).color = kUnit;
    }
  }
  int window() const { return window_; }
  void Fence(const std::vector<int>& ranks) {
    for (const int rank : ranks) {
      Return(rank, Collective(rank, Function::MPI_Win_fence, format::kNoRank, window_));
      ++synchronized_[static_cast<std::size_t>(rank)];
    }
  }
  // A fence before which the rank has found these bytes of its own changed.
  void FenceAfterStores(int rank, const std::vector<format::Stored>& stores) {
    std::vector<format::Part> parts;
    for (const format::Stored& stored : stores) parts.push_back(format::PartOf(stored));
    Return(rank, Amounts(rank, Function::MPI_Win_fence, {}, parts, format::kNoRank, window_));
    ++synchronized_[static_cast<std::size_t>(rank)];
  }
  reader::Call& Access(int rank, const Touch& touch) {
    reader::Call call = OnWindow(rank, touch.function, touch.target);
    call.position = Entry(rank, window_).entered;
    call.chain = touch.at;
    call.count = touch.count;
    call.bytes = touch.count * kUnit;
    call.dtype = kMpiInt;
    call.reduction = touch.reduction;
    call.tag = static_cast<std::int32_t>(touch.epoch);
    call.signature = synchronized_[static_cast<std::size_t>(rank)];
    const std::uint64_t slot = Append(rank, call);
    Pass(0.001);
    Return(rank, slot);
    Pass(0.001);
    return MpiJob::At(rank, slot);
  }
  void Synchronize(int rank, Function function, int target = format::kNoRank) {
    Return(rank, Append(rank, OnWindow(rank, function, target)));
    ++synchronized_[static_cast<std::size_t>(rank)];
    Pass(0.001);
  }

  // MPI_Win_start or MPI_Win_post; inside the call.
  std::uint64_t Named(int rank, Function function, const std::vector<int>& ranks) {
    const std::uint64_t slot = Enter(rank, function);
    std::vector<format::Part> named;
    for (const int one : ranks) named.push_back({static_cast<std::uint32_t>(one), format::kNoType, 0, 0});
    Tell(rank, slot, {}, named);
    return slot;
  }
  std::uint64_t Enter(int rank, Function function, int target = format::kNoRank) {
    return Append(rank, OnWindow(rank, function, target));
  }
  void Lock(int rank, int target, format::AccessEpoch which) {
    const std::uint64_t slot = Enter(rank, Function::MPI_Win_lock, target);
    At(rank, slot).tag = static_cast<std::int32_t>(which);
    Return(rank, slot);
  }

 private:
  reader::Call OnWindow(int rank, Function function, int target) {
    reader::Call call;
    call.function = function;
    call.communicator = Entry(rank, window_).index;
    call.generation = Entry(rank, window_).generation;
    call.root = target;
    return call;
  }

  int window_;
  std::vector<std::uint32_t> synchronized_;
};

}  // namespace ncclwatch::testing
