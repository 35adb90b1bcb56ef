// What can be seen of a generated job at its instant: who lives, who leads, what the clocks say.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "simulation/chance.h"
#include "tests/jobs/simulator/generate.h"

namespace ncclwatch::jobs {

inline constexpr std::int64_t kEpoch = 1'767'225'600'000'000'000;  // the job starts at 2026-01-01T00:00:00Z
inline constexpr std::uint64_t kPidNamespace = 4026531836;

// What chance is asked.
enum Roll : std::uint64_t {
  kOffset = 0xb0a1,
  kWallClock,
  kBoot,
  kHeart,
  kSkew,
  kStream,
  kSeenLate,
  kId,
  kAgreed,
  kTimes
};

// A leader that is gone is followed by another one after this long at least, a hub on another node after that.
inline constexpr std::int64_t kTakeOver = 60 * kMilli, kTakeOverFar = kSecond;

class Scene {
 public:
  explicit Scene(const Generated& made) : made_(made), chance_(made.job.shape.seed ^ 0xb0b0) {}

  std::uint64_t NodeOf(int rank) const { return static_cast<std::uint64_t>(made_.job.node_of(rank)); }
  // The monotonic clocks of nodes start when they boot.
  std::int64_t Offset(int rank) const {
    return chance_.Between(kSecond * 1000, kSecond * 4'000'000, kOffset, NodeOf(rank));
  }
  std::int64_t WallClockError(int rank) const {
    return chance_.Between(-3 * kMilli, 3 * kMilli, kWallClock, NodeOf(rank));
  }
  std::string BootId(int rank) const {
    return fmt::format("{:08x}-0000-4000-8000-{:012x}", NodeOf(rank), chance_.Bits(kBoot, NodeOf(rank)) >> 16);
  }
  std::uint32_t Pid(int rank) const { return static_cast<std::uint32_t>(4000 + rank % made_.job.per_node * 7); }
  std::uint64_t StartTime(int rank) const { return 90000 + static_cast<std::uint64_t>(rank); }

  // When the box is read; what its process does later is not in it.
  std::int64_t Read(int rank) const {
    if (!made_.verdict) return made_.now;
    return made_.now + made_.read_after + chance_.Between(0, kReadLate, kSkew, static_cast<std::uint64_t>(rank));
  }
  std::int64_t GoneAt(int rank) const {
    const RankHistory& world = made_.world->rank(rank);
    return std::min(world.exited, world.killed);
  }
  bool Gone(int rank, std::int64_t at) const { return GoneAt(rank) <= at; }
  bool Acts(int rank, std::int64_t at) const { return !Gone(rank, at) && made_.world->rank(rank).frozen > at; }

  // The lowest rank of the node that can, once those before it have been gone for long enough; -1: none.
  int LeaderOf(int node, std::int64_t at) const {
    const int first = node * made_.job.per_node;
    for (int rank = first; rank < std::min(first + made_.job.per_node, made_.job.shape.ranks); ++rank) {
      if (!HasBox(made_, rank)) continue;
      if (Acts(rank, at)) return rank;
      if (Acts(rank, at - kTakeOver)) return -1;
    }
    return -1;
  }
  int Hub(std::int64_t at) const {
    for (int node = 0; node < made_.job.nodes(); ++node) {
      if (const int leader = LeaderOf(node, at); leader >= 0) return leader;
      if (LeaderOf(node, at - kTakeOverFar) >= 0) return -1;
    }
    return -1;
  }
  // The last instant at which it did anything.
  std::int64_t LastAct(int rank) const {
    return std::min({Read(rank), GoneAt(rank) - 1, made_.world->rank(rank).frozen - 1});
  }
  // Ranks below that do not act any more: each may have led before.
  std::uint64_t Before(int first, int rank, std::int64_t at) const {
    std::uint64_t count = 0;
    for (int other = first; other < rank; ++other) count += Acts(other, at) ? 0u : 1u;
    return count;
  }
  const Ending* EndingOf(int rank) const {
    for (const Ending& ending : made_.endings)
      if (ending.rank == rank) return &ending;
    return nullptr;
  }

  const Generated& made() const { return made_; }
  const Chance& chance() const { return chance_; }

 private:
  const Generated& made_;
  Chance chance_;
};

// Equal on every rank that makes the same calls.
std::uint64_t IdOf(const Scene& scene, int comm, std::uint64_t ordinal);

// What the rank's box says of other processes, if it leads, in order of time; and of its own end.
using Seen = std::pair<std::int64_t, std::pair<int, format::Observed>>;
std::vector<Seen> ObservationsOf(const Scene& scene, int rank);
void FillObservations(const Scene& scene, int rank, const std::vector<Seen>& observations, format::Header* header);
// `head` records have been made by the instant `seen`.
void FillWords(const Scene& scene, int rank, std::int64_t seen, std::size_t head, format::Header* header);

}  // namespace ncclwatch::jobs
