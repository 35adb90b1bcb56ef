// Faults of processes, and of what a rank waits for outside NCCL.
#include <fmt/core.h>

#include <algorithm>
#include <csignal>

#include "tests/jobs/simulator/fault.h"

namespace ncclwatch::jobs {
namespace {

bool DeadRank(Draft* draft) {
  draft->doomed = draft->AnyRank();
  draft->look = Look::kAfterDeath;
  Ending ending;
  ending.rank = draft->doomed;
  const int how = draft->dice.Below(3);
  if (how == 0) ending.signal = SIGKILL;
  if (how == 1) ending.signal = SIGSEGV;
  if (how == 2) ending.status = 1, ending.exception = "ValueError: this rank's batch is damaged";
  draft->made->endings.push_back(ending);
  draft->truth().answers = {Exactly("dead_rank", {draft->doomed})};
  draft->truth().story = fmt::format("rank {} dies at a random instant", draft->doomed);
  return true;
}

bool EarlyExit(Draft* draft) {
  const int section = draft->AnyStep();
  std::vector<int> leavers = {draft->AnyRank()};
  while (leavers.size() < 3 && draft->dice.OneIn(3)) {
    const int another = draft->AnyRank();
    if (std::find(leavers.begin(), leavers.end(), another) == leavers.end()) leavers.push_back(another);
  }
  for (const int rank : leavers)
    draft->Change(rank, {.how = Edit::How::kCut,
                         .section = section,
                         .index = 0,
                         .ops = {Planted({.what = Do::kSync}),
                                 {.what = Do::kWork, .ns = 20 * kMilli},
                                 {.what = Do::kExit, .root = 0}}});
  draft->look = Look::kAfterDeath;
  draft->truth().answers = {Exactly("early_exit", leavers)};
  draft->truth().story = "its loop ends a few steps before the others'";
  return true;
}

// What all others wait in may be a message (Generate takes that back where somebody waits in a collective).
void MissingAnswers(Draft* draft, const Spot& spot) {
  draft->truth().answers = {Exactly("missing_participant", {spot.rank})};
  const Ops ops = draft->job().PlainSection(spot.rank, spot.section);
  if (std::any_of(ops.begin() + spot.index, ops.end(), IsMessage))
    draft->truth().answers.push_back(Exactly("point_to_point_mismatch", {spot.rank}));
  draft->truth().may_be_certain = false;
}

bool MissingParticipant(Draft* draft) {
  const std::optional<Spot> spot = draft->Find([](const Op& op) { return op.what == Do::kCall; }, false, true);
  if (!spot) return false;
  draft->Change(spot->rank, {.section = spot->section, .index = spot->index, .ops = {Planted({.what = Do::kHang})}});
  draft->look = Look::kAfterStall;
  MissingAnswers(draft, *spot);
  draft->truth().story = fmt::format("the host of rank {} is stuck outside NCCL", spot->rank);
  return true;
}

bool FrozenProcess(Draft* draft) {
  draft->doomed = draft->AnyRank();
  draft->freezes = true;
  draft->look = Look::kAfterStall;
  draft->made->frozen = draft->dice.OneIn(2) ? format::Observed::kStopped : format::Observed::kStuck;
  draft->truth().answers = {Exactly("frozen_process", {draft->doomed})};
  draft->truth().may_be_certain = false;
  draft->truth().story = fmt::format("rank {} is stopped, or stuck in the kernel", draft->doomed);
  return true;
}

// It never gets to the creation of one of its communicators.
bool InitializationHang(Draft* draft) {
  const int rank = draft->AnyRank();
  const Ops ops = draft->job().PlainSection(rank, 0);
  std::vector<int> creations;
  for (std::size_t i = 0; i < ops.size(); ++i)
    if (ops[i].what == Do::kInit || ops[i].what == Do::kSplit) creations.push_back(static_cast<int>(i));
  const int index = creations[static_cast<std::size_t>(draft->dice.Below(static_cast<int>(creations.size())))];
  draft->Change(rank, {.section = 0, .index = index, .ops = {Planted({.what = Do::kHang})}});
  if (index == creations.front()) draft->made->boxless.push_back(rank);
  draft->look = Look::kAfterStall;
  draft->truth().answers = {Exactly("initialization_hang", {rank})};
  draft->truth().may_be_certain = false;
  draft->truth().story = fmt::format("rank {} does not join a communicator", rank);
  return true;
}

bool InitializationSize(Draft* draft) {
  const int rank = draft->AnyRank();
  Ops ops = draft->job().PlainSection(rank, 0);
  const auto init = std::find_if(ops.begin(), ops.end(), [](const Op& op) { return op.what == Do::kInit; });
  Op wrong = Planted(*init);
  wrong.claimed_size = static_cast<std::uint32_t>(draft->job().shape.ranks + (draft->dice.OneIn(2) ? 1 : 8));
  draft->Change(
      rank, {.how = Edit::How::kReplace, .section = 0, .index = static_cast<int>(init - ops.begin()), .ops = {wrong}});
  draft->look = Look::kAfterStall;
  draft->truth().answers = {Exactly("initialization_hang", {rank})};
  draft->truth().answers.front().voters = draft->CommAt(0).members;
  draft->truth().story = fmt::format("rank {} gives the world another size", rank);
  return true;
}

// What a rank's GPU does not get to and what no GPU gets through look alike where only ends are marked.
bool DeviceStall(Draft* draft) {
  const std::optional<Spot> spot = draft->Find([](const Op& op) { return op.what == Do::kCall; });
  if (!spot) return false;
  draft->Change(spot->rank, {.section = spot->section,
                             .index = spot->index,
                             .ops = {Planted({.what = Do::kKernel, .stream = spot->op.stream, .ns = kNever})}});
  draft->look = Look::kAfterStall;
  draft->truth().answers = {Exactly("device_stall", {spot->rank})};
  if (!draft->job().MarksStarts(spot->rank)) draft->truth().answers.push_back({"transport_stall", {}, {}});
  draft->truth().may_be_certain = false;
  draft->truth().story = fmt::format("a kernel of the application never ends on the GPU of rank {}", spot->rank);
  return true;
}

bool TransportStall(Draft* draft) {
  const std::optional<Spot> spot = draft->Find([](const Op& op) { return op.what == Do::kCall && op.count > 0; });
  if (!spot) return false;
  Op stuck = Planted(spot->op);
  stuck.stalls = true;
  draft->Change(spot->rank,
                {.how = Edit::How::kReplace, .section = spot->section, .index = spot->index, .ops = {stuck}});
  draft->look = Look::kAfterStall;
  // Nothing tells where it is stuck; a message is on its way between two.
  draft->truth().answers = {{"transport_stall", {}, {}}};
  if (IsMessage(spot->op)) draft->truth().answers.front().within = BothSides(*draft, *spot);
  draft->truth().may_be_certain = false;
  draft->truth().story = "a call that all have begun never ends";
  return true;
}

bool Healthy(Draft* draft) {
  draft->truth().silence = true;
  draft->truth().story = "nothing is wrong";
  draft->job().pause = 0.002 * draft->dice.Unit();
  draft->job().longest_pause = draft->dice.OneIn(4) ? 4 * kSecond : 300 * kMilli;
  if (draft->dice.OneIn(4)) {
    const Op checkpoint = {.what = Do::kWork, .ns = draft->dice.Between(5 * kSecond, 300 * kSecond)};
    const int section = draft->AnyStep();
    for (int rank = 0; rank < draft->job().shape.ranks; ++rank)
      draft->Change(rank, {.section = section, .index = 0, .ops = {{.what = Do::kSync}, checkpoint}});
  }
  draft->look = Look::kAnytime;
  return true;
}

}  // namespace

const std::vector<Fault> kRankFaults = {
    {"dead_rank", DeadRank},
    {"early_exit", EarlyExit},
    {"missing_participant", MissingParticipant},
    {"frozen_process", FrozenProcess},
    {"initialization_hang", InitializationHang},
    {"initialization_size", InitializationSize},
    {"device_stall", DeviceStall},
    {"transport_stall", TransportStall},
    {"healthy", Healthy},
};

}  // namespace ncclwatch::jobs
