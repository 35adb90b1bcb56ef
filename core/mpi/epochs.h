// The epochs of a window that two ranks have to open for each other (MPI_Win_start and MPI_Win_post), and its locks, by
// the records of one of its ranks: which of its calls belongs to which of another one.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "core/view/view.h"
#include "ncclwatch/format/mpi_record.h"

namespace ncclwatch::diagnosis {

// Calls that end an epoch or begin one, and may have to wait for another rank until they do.
bool MayWaitForOthers(functions::Function function);

class Epochs {
 public:
  Epochs(const View& view, const Member& member);

  // All that the rank has ever called on the window is there, in its order.
  bool known() const { return known_; }
  // The one it is in, of those that may wait for other ranks; null: none.
  const reader::Call* open() const { return open_; }
  // Whom the last MPI_Win_start, or MPI_Win_post, has named.
  const std::vector<std::uint32_t>& started() const { return started_; }
  const std::vector<std::uint32_t>& posted() const { return posted_; }
  // How many have named that rank.
  std::uint64_t StartsOf(std::uint32_t rank) const { return NumberIn(starts_, rank); }
  std::uint64_t CompletesOf(std::uint32_t rank) const { return NumberIn(completes_, rank); }
  std::uint64_t PostsOf(std::uint32_t rank) const { return NumberIn(posts_, rank); }
  // Which of them an access belongs to, from 1 on.
  std::uint64_t StartOf(const reader::Call& access) const;
  // Which of all epochs that it has posted the n-th of those that name that rank is, from 1 on; 0: none yet.
  std::uint64_t ExposureOf(std::uint32_t rank, std::uint64_t n) const;
  // The lock that it has at a target, and the one that the last of its calls about locks asks for, uses or gives back.
  format::AccessEpoch LockAt(std::int32_t target) const;
  bool HasExclusiveLock() const;
  format::AccessEpoch wanted() const { return wanted_; }

 private:
  using Slots = std::map<std::uint32_t, std::vector<std::uint64_t>>;  // of calls that name a rank
  static std::uint64_t NumberIn(const Slots& slots, std::uint32_t rank);
  void Take(const Member& member, const reader::Call& call);
  void Name(const Member& member, const reader::Call& call, std::vector<std::uint32_t>* named, Slots* slots);
  void TakeLock(const reader::Call& call);

  bool known_ = false;
  const reader::Call* open_ = nullptr;
  std::vector<std::uint32_t> started_, posted_;
  Slots starts_, completes_, posts_;
  std::vector<std::uint64_t> exposures_;  // slots of MPI_Win_post
  std::map<std::int32_t, format::AccessEpoch> locks_;
  format::AccessEpoch all_ = format::AccessEpoch::kNone;
  format::AccessEpoch wanted_ = format::AccessEpoch::kNone;
};

// Of each member.
std::vector<Epochs> EpochsOf(const View& view, const CommView& comm);

}  // namespace ncclwatch::diagnosis
