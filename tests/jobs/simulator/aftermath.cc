// What follows from a fault: errors, the survivors' own ones, monitors that take communicators down and end their ranks
// after minutes, the launcher that ends what is left. None of it changes what was wrong first.
#include <algorithm>
#include <csignal>
#include <set>

#include "tests/jobs/simulator/fault.h"

namespace ncclwatch::jobs {
namespace {

constexpr std::int32_t kRemoteError = 6;

bool Ended(const Generated& made, int rank) {
  const RankHistory& world = made.world->rank(rank);
  return std::min(world.exited, world.killed) != kNever;
}

void End(Draft* draft, Ending ending, std::int64_t at) {
  draft->made->world->End(ending.rank, at);
  draft->made->endings.push_back(std::move(ending));
}

// All that are left, one soon after the other.
void LauncherEnds(Draft* draft, std::int64_t at) {
  for (int rank = 0; rank < draft->job().shape.ranks; ++rank)
    if (!Ended(*draft->made, rank)) End(draft, {rank, SIGTERM, 0, ""}, at + draft->dice.Between(0, 30 * kMilli));
}

// After the end, or the leader's last words before it is ended as well.
void LookAfter(Draft* draft, std::int64_t over) {
  Generated& made = *draft->made;
  made.now = over + 3 * kSecond;
  if (!made.verdict) return;
  made.read_after = 5 * kSecond;
  made.now = over - draft->dice.Between(kMilli, 20 * kMilli);
}

std::int64_t LastEvent(const Generated& made) {
  std::int64_t last = made.world->ended();
  for (const Reported& reported : made.reported) last = std::max(last, reported.at);
  return last;
}

void Tell(Generated* made, int rank, int comm, std::int64_t at, std::int32_t result) {
  const std::vector<LocalComm>& comms = made->world->rank(rank).comms;
  for (std::size_t i = 0; i < comms.size(); ++i)
    if (comms[i].comm == comm) made->reported.push_back({rank, at, static_cast<int>(i), result});
}

// A survivor that was sending over a socket to the dead one, or receiving; it ends of that.
void PeerComplains(Draft* draft, std::int64_t at) {
  Generated& made = *draft->made;
  const int rank = draft->AnyRank();
  if (Ended(made, rank) || made.job.nodes() < 2) return;
  made.reported.push_back({rank, at, 0, kRemoteError});
  End(draft, {rank, 0, 1, "torch.distributed.DistBackendError: NCCL communicator: remote process exited"},
      at + draft->dice.Between(100 * kMilli, kSecond));
}

void AfterDeath(Draft* draft) {
  Generated& made = *draft->made;
  const std::int64_t ended = made.world->ended();
  std::int64_t over = ended + draft->dice.Between(150 * kMilli, 2 * kSecond);
  if (draft->dice.OneIn(3)) {
    for (int i = 0; i < 3; ++i) PeerComplains(draft, ended + draft->dice.Between(50 * kMilli, kSecond));
    over = ended + draft->dice.Between(2 * kSecond, 4 * kSecond);
  }
  LauncherEnds(draft, over);
  LookAfter(draft, over);
  // Nobody saw how it ended, it could not say, and soon all had ended.
  const Ending& first = made.endings.front();
  if (!made.exits_known && first.signal == SIGKILL) draft->truth().silence = true;
}

// Monitors of ranks that wait lose patience, the first after minutes, others at about the same time. Each takes its
// communicators down first, or just ends. Then the launcher ends what is left.
void AfterStall(Draft* draft) {
  Generated& made = *draft->made;
  const bool aborts = draft->dice.OneIn(2);
  const std::int64_t first = LastEvent(made) + draft->dice.Between(15 * kSecond, 600 * kSecond);
  std::int64_t last = 0;
  for (int i = 0, victims = 1 + draft->dice.Below(4); i < victims; ++i) {
    const int rank = draft->AnyRank();
    const RankHistory& own = made.world->rank(rank);
    if (Ended(made, rank) || !made.world->waits(rank) || own.frozen != kNever) continue;
    const std::int64_t at = first + (last == 0 ? 0 : draft->dice.Between(0, 2 * kSecond));
    const std::int64_t ends = at + draft->dice.Between(20 * kMilli, 500 * kMilli);
    if (aborts) made.world->Abort(rank, at);
    End(draft, {rank, SIGABRT, 0, ""}, ends);
    last = std::max(last, ends);
  }
  if (last == 0) return;
  const std::int64_t over = last + draft->dice.Between(150 * kMilli, 2 * kSecond);
  LauncherEnds(draft, over);
  LookAfter(draft, over);
}

}  // namespace

void AddAftermath(Draft* draft) {
  static const std::set<std::string> kEndTheirRank = {"dead_rank", "library_error", "asynchronous_error",
                                                      "out_of_memory"};
  if (!draft->made->world->hung() || !draft->dice.OneIn(3)) return;
  if (!draft->made->endings.empty() && kEndTheirRank.contains(draft->truth().fault)) return AfterDeath(draft);
  AfterStall(draft);
}

// Then perhaps on another rank too, which lost the connection to the first; each may end of it.
void TellError(Draft* draft) {
  Generated& made = *draft->made;
  const AsyncError& error = *draft->error;
  const std::int64_t at = made.world->planted_ns() + draft->dice.Between(50 * kMilli, 3 * kSecond);
  Tell(&made, error.rank, error.comm, at, error.result);
  std::int64_t later = at;
  if (draft->dice.OneIn(2)) {
    const std::vector<int>& members = draft->CommAt(error.comm).members;
    const int other = draft->dice.Of(members.data(), members.size());
    later += draft->dice.Between(30 * kMilli, kSecond);
    if (other != error.rank) Tell(&made, other, error.comm, later, kRemoteError);
  }
  if (error.dies)
    End(draft, {error.rank, 0, 1, "torch.distributed.DistBackendError: NCCL error in ProcessGroupNCCL"},
        later + draft->dice.Between(100 * kMilli, kSecond));
}

}  // namespace ncclwatch::jobs
