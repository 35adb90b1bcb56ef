#include "core/mpi/epochs.h"

#include <algorithm>

#include "core/view/mpi_ended.h"

namespace ncclwatch::diagnosis {

using format::AccessEpoch;
using functions::Function;
using reader::Call;

bool MayWaitForOthers(Function function) {
  switch (function) {
    case Function::MPI_Win_start:
    case Function::MPI_Win_complete:
    case Function::MPI_Win_wait:
    case Function::MPI_Win_lock:
    case Function::MPI_Win_lock_all:
    case Function::MPI_Win_unlock:
    case Function::MPI_Win_unlock_all:
    case Function::MPI_Win_flush:
    case Function::MPI_Win_flush_all: return true;
    default: return false;
  }
}

Epochs::Epochs(const View& view, const Member& member) {
  const Process& process = view.process(member);
  known_ = process.box->first_slot == 0 && !HasIncompleteHistory(process);
  if (!known_) return;
  for (const Call& call : process.box->calls)
    if (call.communicator == member.comm->index && call.generation == member.comm->generation) Take(member, call);
}

void Epochs::Take(const Member& member, const Call& call) {
  if (call.result != 0 && call.result != format::kNoResult) return;
  switch (call.function) {
    case Function::MPI_Win_start: Name(member, call, &started_, &starts_); break;
    case Function::MPI_Win_post:
      Name(member, call, &posted_, &posts_);
      exposures_.push_back(call.slot);
      break;
    case Function::MPI_Win_complete:
      for (const std::uint32_t rank : started_) completes_[rank].push_back(call.slot);
      break;
    case Function::MPI_Win_wait: break;
    case Function::MPI_Win_lock:
    case Function::MPI_Win_lock_all:
    case Function::MPI_Win_unlock:
    case Function::MPI_Win_unlock_all:
    case Function::MPI_Win_flush:
    case Function::MPI_Win_flush_all: TakeLock(call); break;
    default: return;
  }
  if (call.returned_ns == 0 && MayWaitForOthers(call.function)) open_ = &call;
}

void Epochs::Name(const Member& member, const Call& call, std::vector<std::uint32_t>* named, Slots* slots) {
  const reader::CallParts* parts = member.box->PartsOf(call.slot);
  named->clear();
  if (parts == nullptr) {
    known_ = false;
    return;
  }
  for (const format::Part& part : parts->receives) {
    named->push_back(part.what);
    (*slots)[part.what].push_back(call.slot);
  }
}

// Whoever is in a call that gives a lock back keeps nobody waiting by it.
void Epochs::TakeLock(const Call& call) {
  const auto asked = static_cast<AccessEpoch>(call.tag);
  switch (call.function) {
    case Function::MPI_Win_lock:
      wanted_ = asked;
      if (call.returned_ns != 0) locks_[call.root] = asked;
      return;
    case Function::MPI_Win_lock_all:
      wanted_ = AccessEpoch::kShared;
      if (call.returned_ns != 0) all_ = AccessEpoch::kShared;
      return;
    case Function::MPI_Win_unlock:
      wanted_ = LockAt(call.root);
      locks_.erase(call.root);
      return;
    case Function::MPI_Win_unlock_all:
      wanted_ = all_;
      all_ = AccessEpoch::kNone;
      return;
    case Function::MPI_Win_flush: wanted_ = LockAt(call.root); return;
    default: wanted_ = AccessEpoch::kShared; return;
  }
}

std::uint64_t Epochs::NumberIn(const Slots& slots, std::uint32_t rank) {
  const auto found = slots.find(rank);
  return found == slots.end() ? 0 : found->second.size();
}

std::uint64_t Epochs::StartOf(const Call& access) const {
  const auto found = starts_.find(static_cast<std::uint32_t>(access.root));
  if (found == starts_.end()) return 0;
  const std::vector<std::uint64_t>& slots = found->second;
  return static_cast<std::uint64_t>(std::lower_bound(slots.begin(), slots.end(), access.slot) - slots.begin());
}

std::uint64_t Epochs::ExposureOf(std::uint32_t rank, std::uint64_t n) const {
  const auto found = posts_.find(rank);
  if (n == 0 || found == posts_.end() || found->second.size() < n) return 0;
  const auto post = std::lower_bound(exposures_.begin(), exposures_.end(), found->second[n - 1]);
  return static_cast<std::uint64_t>(post - exposures_.begin()) + 1;
}

AccessEpoch Epochs::LockAt(std::int32_t target) const {
  const auto found = locks_.find(target);
  return found != locks_.end() ? found->second : all_;
}

bool Epochs::HasExclusiveLock() const {
  return std::any_of(locks_.begin(), locks_.end(),
                     [](const auto& lock) { return lock.second == AccessEpoch::kExclusive; });
}

std::vector<Epochs> EpochsOf(const View& view, const CommView& comm) {
  std::vector<Epochs> epochs;
  epochs.reserve(comm.members.size());
  for (const Member& member : comm.members) epochs.emplace_back(view, member);
  return epochs;
}

}  // namespace ncclwatch::diagnosis
