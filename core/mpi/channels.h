// The messages of MPI, paired: what a rank has sent another one on a communicator, what of it has been received, and
// what is under way. Positions of the two sides count alike, and where the sums of their tags agree (format::AddTag),
// the first so many sends are the first so many receives: from there on they are paired by tag, in order.
#pragma once

#include <functional>
#include <map>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/calls/mpi_message.h"
#include "core/view/view.h"

namespace ncclwatch::diagnosis {

struct Channel {
  const Member* sender = nullptr;
  const Member* receiver = nullptr;
  std::vector<const reader::Call*> sends, receipts;                      // in the ring, by position
  std::vector<std::pair<const reader::Call*, const reader::Call*>> met;  // as far as that is certain
  std::vector<const reader::Call*> under_way;                            // sent and not received, in order
  // Of those, what the only open receive of its rank is about to get.
  std::vector<std::pair<const reader::Call*, const reader::Call*>> claimed;
  bool known = false;  // what is under way; else the rings reach back too little
  bool lossy = false;  // a receive that is not in the ring any more may take messages, or has taken some
};

class Channels {
 public:
  explicit Channels(const View& view);
  // From one rank of the communicator to another; null: no message, or no box of one of them.
  const Channel* Of(int comm, std::uint32_t sender, std::uint32_t receiver) const;
  const std::map<std::tuple<int, std::uint32_t, std::uint32_t>, Channel>& all() const { return channels_; }
  // A receive that is open, or of which nobody knows what it got, takes it.
  bool MayBeReceived(const reader::Call* send) const;
  // A receive that is open, and from its sender alone, takes it.
  bool IsClaimed(const reader::Call* send) const { return claimed_.contains(send); }
  // Not received, and neither such a receive takes it nor has a matched probe.
  bool Free(const reader::Call* send) const;
  // A message under way that an open receive or probe may get; null: none, as far as is known.
  const reader::Call* ClaimOf(const reader::Call* receive) const;
  // Its process has sent or received what no record tells of: of its messages nothing is known.
  bool HasUnseen(const Member& member) const { return unseen_.contains(member.process); }

 private:
  void AddCounted(int comm, const Member& member);
  void Claim(const View& view, int comm);
  void ForEachTaken(int comm, const Member& member, const reader::Call& receive,
                    const std::function<bool(const reader::Call*)>& visit) const;

  std::map<std::tuple<int, std::uint32_t, std::uint32_t>, Channel> channels_;
  std::unordered_set<int> unseen_;                             // processes
  std::map<const reader::Call*, const reader::Call*> claims_;  // by receive
  std::unordered_set<const reader::Call*> claimed_;            // sends, by a receive from their sender
  std::unordered_set<const reader::Call*> wanted_;             // sends, by a wildcard receive
  std::unordered_set<const reader::Call*> held_;               // sends, by a matched probe
};

}  // namespace ncclwatch::diagnosis
