// What follows from a fault: the survivors' own errors, the launcher that ends what is left, the monitor that kills a
// rank after minutes. None of it changes what was wrong first.
#include <algorithm>

#include "tests/jobs/fault.h"

namespace ncclwatch::jobs {
namespace {

constexpr int kSigAbrt = 6, kSigKill = 9, kSigTerm = 15;
constexpr std::int32_t kRemoteError = 6;

bool Ended(const Generated& made, int rank) {
  const RankWorld& world = made.world->rank(rank);
  return std::min(world.exited, world.killed) != kNever;
}

void End(Draft* draft, Ending ending, std::int64_t at) {
  draft->made->world->End(ending.rank, at);
  draft->made->endings.push_back(std::move(ending));
}

// All that are left, one soon after the other.
void LauncherEnds(Draft* draft, std::int64_t at) {
  for (int rank = 0; rank < draft->job().shape.ranks; ++rank)
    if (!Ended(*draft->made, rank)) End(draft, {rank, kSigTerm, 0, ""}, at + draft->dice.Between(0, 30 * kMilli));
}

// A survivor that was sending over a socket to the dead one, or receiving; it ends of that.
void PeerComplains(Draft* draft, std::int64_t at) {
  Generated& made = *draft->made;
  const int rank = draft->AnyRank();
  if (Ended(made, rank) || made.job.nodes() < 2) return;
  made.told.push_back({rank, at, 0, kRemoteError});
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
  made.now = over + 3 * kSecond;
  if (made.verdict) {  // the leader's last words before it is ended as well
    made.read_after = 5 * kSecond;
    made.now = over - draft->dice.Between(kMilli, 20 * kMilli);
  }
  // Nobody saw how it ended, it could not say, and soon all had ended.
  const Ending& first = made.endings.front();
  if (!made.exits_known && first.signal == kSigKill) draft->truth().silence = true;
}

// The monitor of one rank ends it, then the launcher the others.
void AfterStall(Draft* draft) {
  Generated& made = *draft->made;
  const int victim = draft->AnyRank();
  const std::vector<int>& culprits = draft->truth().answers.front().include;
  if (std::find(culprits.begin(), culprits.end(), victim) != culprits.end()) return;
  const std::int64_t at = made.world->ended() + draft->dice.Between(15 * kSecond, 600 * kSecond);
  End(draft, {victim, kSigAbrt, 0, ""}, at);
  const std::int64_t over = at + draft->dice.Between(150 * kMilli, 2 * kSecond);
  LauncherEnds(draft, over);
  made.exits_known = true;
  made.now = over + 3 * kSecond;
  if (made.verdict) {
    made.read_after = 5 * kSecond;
    made.now = over - draft->dice.Between(kMilli, 20 * kMilli);
  }
}

}  // namespace

void AddAftermath(Draft* draft) {
  const std::string& fault = draft->truth().fault;
  const bool died = !draft->made->endings.empty();
  if (!draft->made->world->hung() || !draft->dice.OneIn(3)) return;
  if (died && (fault == "dead_rank" || fault == "library_error")) AfterDeath(draft);
  if (fault == "missing_participant" || fault == "frozen_process") AfterStall(draft);
}

}  // namespace ncclwatch::jobs
