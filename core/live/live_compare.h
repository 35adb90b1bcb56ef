// What the leader does all the time instead of a diagnosis: follows live boxes with a cursor for each, compares
// fingerprints as they come, and knows cheaply who has arrived where. It decides nothing: it says when it is worth
// building images and calling Diagnose. Not thread-safe: one thread polls.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/reader/box.h"

namespace ncclwatch::diagnosis {

// More zeros at the end, or as many and later. Of the positions that a member passes in any stretch the roundest one is
// met by all members whose stretches are about as long, wherever those begin.
constexpr bool Rounder(std::uint64_t position, std::uint64_t than) {
  const std::uint64_t a = position & -position, b = than & -than;
  return a != b ? a > b : position > than;
}

class LiveCompare {
 public:
  enum class What {
    kDifferentCall,      // another fingerprint at a position that somebody has entered before
    kZeroCount,          // one member made an empty call where another made none
    kDifferentSize,      // members of one communicator give it different sizes
    kDifferentAmount,    // of MPI: what one sends another one is not what that one expects
    kDifferentCreation,  // of MPI: another call that makes a communicator, or at another place among the collectives
  };
  struct Suspicion {
    What what{};
    std::uint64_t communicator = 0;
    std::uint64_t position = 0;
    std::uint32_t arrived = 0;  // members that had entered the position when it was seen
    std::uint32_t size = 0;     // of the communicator: arrived < size means that more may come
  };

  // One communicator as its seen members stand. Destroyed, aborted and failed members are left out.
  struct Front {
    std::uint64_t communicator = 0;
    std::uint32_t size = 0;
    std::uint32_t members = 0;       // seen
    std::uint32_t initializing = 0;  // of them, still inside the creating call
    std::uint32_t ready = 0;
    std::uint32_t arrived = 0;    // members that have entered `ahead` collectives
    std::uint64_t ahead = 0;      // highest number of collectives entered
    std::uint64_t behind = 0;     // lowest
    std::uint32_t pending = 0;    // members inside a call, or with a marked launch that the GPU has not finished
    std::int64_t changed_ns = 0;  // last arrival, return or finish of any member, or its creation
    // Somebody may be waiting for somebody: not all have arrived, or something is pending, or not all have joined.
    bool Waiting() const { return ahead != behind || pending > 0 || initializing > 0 || (ahead > 0 && members < size); }
  };

  // Quiet times of waiting communicators that ended by themselves: what NCCLWATCH_TIMEOUT=auto learns from.
  struct Waits {
    std::uint64_t resolved = 0;
    std::int64_t longest_ns = 0;
  };

  // One member as of the last poll, for those who compare it with members that are followed elsewhere.
  struct Stand {
    const reader::MappedBox* box = nullptr;
    std::uint32_t index = 0;  // in the box's table
    std::uint64_t entered = 0;
    std::uint64_t returned = 0;
    bool outstanding = false;  // a marked launch that the GPU has not finished
    // The chain over the first pace_position collectives: the roundest position that it has passed since the last
    // time, 0 if none. Followers elsewhere meet it at the same one, however far they have got.
    std::uint64_t pace_position = 0;
    std::uint64_t pace_chain = 0;
  };

  LiveCompare();
  ~LiveCompare();
  LiveCompare(const LiveCompare&) = delete;
  LiveCompare& operator=(const LiveCompare&) = delete;

  // The box stays the caller's and must be forgotten before it is unmapped. A box of a dead process may stay: it does
  // no harm and its last records still count.
  void Follow(const reader::MappedBox& box);
  void Forget(const reader::MappedBox& box);

  // Reads what has come since the last poll (at most the newest 1,024 records of each box; chains make up for what is
  // skipped). True if a suspicion is standing.
  bool Poll(std::int64_t now_ns);

  const std::vector<Suspicion>& suspicions() const;  // at most one for each communicator
  // "Diagnose found nothing in it": silent on that communicator for a while, each time for twice as long (0.25 s to
  // 30 s), since an accepted difference (calls permuted within a group) leaves the chains different for good.
  void Acknowledge(std::uint64_t communicator, std::int64_t now_ns);

  std::vector<Front> Fronts() const;
  // Since when its process is in a call of MPI, on any of its threads, and has made no other one, as of the last poll;
  // 0: it is in none.
  std::int64_t InsideSince(const reader::MappedBox& box) const;
  // Of every member whose identity is known. Forgets the paces.
  std::vector<Stand> TakeStands();
  // The oldest changed_ns among the fronts in which somebody may be waiting, or InsideSince; 0 if nobody waits. now
  // minus this at or beyond Limits::suspect_after_ns: worth a diagnosis.
  std::int64_t QuietSince() const;
  Waits waits() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ncclwatch::diagnosis
