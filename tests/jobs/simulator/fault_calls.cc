// Faults of collectives: one rank makes another call than the others, one too many, or one too few.
#include <fmt/core.h>

#include <algorithm>

#include "ncclwatch/functions/types.h"
#include "tests/jobs/simulator/fault.h"

namespace ncclwatch::jobs {
namespace {

std::uint64_t BytesOf(const Op& op) { return op.count * functions::DatatypeBytes(op.dtype); }

bool MovesBytes(const Op& op) {
  return op.function == Function::ncclAllGather || op.function == Function::ncclBroadcast ||
         op.function == Function::ncclAlltoAll;
}

// As far as NCCL can tell.
bool SameCall(const Op& a, const Op& b) {
  if (a.function != b.function || a.root != b.root || a.reduction != b.reduction) return false;
  return MovesBytes(a) ? BytesOf(a) == BytesOf(b) : a.count == b.count && a.dtype == b.dtype;
}

// The next collective of the same communicator that the rank makes, in this section.
int NextOf(const Ops& ops, const Spot& spot) {
  for (int i = spot.index + 1; i < static_cast<int>(ops.size()); ++i)
    if (IsCollective(ops[static_cast<std::size_t>(i)]) && ops[static_cast<std::size_t>(i)].comm == spot.op.comm)
      return i;
  return -1;
}

// How many collectives of its communicator the rank has made before.
std::uint64_t PositionOf(const Job& job, const Spot& spot) {
  std::uint64_t position = 0;
  for (int section = 0; section <= spot.section; ++section) {
    const Ops ops = job.PlainSection(spot.rank, section);
    for (int i = 0; i < static_cast<int>(ops.size()); ++i) {
      if (section == spot.section && i == spot.index) break;
      const Op& op = ops[static_cast<std::size_t>(i)];
      if (IsCollective(op) && op.comm == spot.op.comm) ++position;
    }
  }
  return position;
}

void Differ(Draft* draft, const Spot& spot) {
  constexpr Job::Differ kWays[] = {Job::Differ::kHang, Job::Differ::kPass, Job::Differ::kLessEnds};
  draft->job().differ = draft->dice.Of(kWays, 3);
  draft->odd = spot.rank;
  draft->comm = spot.op.comm;
  draft->position = PositionOf(draft->job(), spot);
  draft->look = Look::kSoon;
}

void Say(Draft* draft, const Spot& spot, const std::string& kind, const std::string& story) {
  draft->truth().answers = {OddOneOut(kind, draft->CommAt(spot.op.comm), spot.rank)};
  draft->truth().story = fmt::format("rank {} {}", spot.rank, story);
}

bool OrderMismatch(Draft* draft) {
  for (int tries = 0; tries < 40; ++tries) {
    const std::optional<Spot> spot = draft->Find(IsCollective);
    if (!spot) return false;
    const Ops ops = draft->job().PlainSection(spot->rank, spot->section);
    const int next = NextOf(ops, *spot);
    if (next < 0 || SameCall(ops[static_cast<std::size_t>(next)], spot->op)) continue;
    Differ(draft, *spot);
    const Op& other = ops[static_cast<std::size_t>(next)];
    draft->Change(
        spot->rank,
        {.how = Edit::How::kReplace, .section = spot->section, .index = spot->index, .ops = {Planted(other)}});
    draft->Change(spot->rank, {.how = Edit::How::kReplace, .section = spot->section, .index = next, .ops = {spot->op}});
    Say(draft, *spot, KindOfDifference(spot->op, other), "makes two calls in the other order");
    return true;
  }
  return false;
}

bool ChangeArgument(Draft* draft, Op* op) {
  switch (draft->dice.Below(5)) {
    case 0: op->count *= 2; return true;
    case 1: op->count += 1; return true;
    case 2: op->count = 0; return true;
    case 3:
      if (op->reduction == format::kNoReduction) return false;
      op->reduction = op->reduction == kMax ? kSum : kMax;
      return true;
    default:
      if (op->root >= 0) {
        op->root = (op->root + 1) % 4;
        return true;
      }
      if (MovesBytes(*op)) return false;
      op->dtype = op->dtype == kBfloat16 ? kFloat16 : kBfloat16;
      return true;
  }
}

bool ArgumentMismatch(Draft* draft) {
  const std::optional<Spot> spot = draft->Find(IsCollective, true);
  if (!spot) return false;
  Op wrong = Planted(spot->op);
  while (!ChangeArgument(draft, &wrong)) {
  }
  Differ(draft, *spot);
  draft->Change(spot->rank,
                {.how = Edit::How::kReplace, .section = spot->section, .index = spot->index, .ops = {wrong}});
  Say(draft, *spot, "argument_mismatch", "gives another argument");
  return true;
}

// NCCL moves bytes and knows nothing of their type.
bool EqualBytes(Draft* draft) {
  const std::optional<Spot> spot =
      draft->Find([](const Op& op) { return MovesBytes(op) || (IsMessage(op) && op.count > 0); }, true, true);
  if (!spot) return false;
  Op other = Planted(spot->op);
  other.count = BytesOf(other);
  other.dtype = kInt8;
  draft->Change(spot->rank,
                {.how = Edit::How::kReplace, .section = spot->section, .index = spot->index, .ops = {other}});
  draft->truth().silence = true;
  draft->truth().story = "as many bytes under another type: NCCL accepts it";
  return true;
}

bool ExtraCall(Draft* draft) {
  const std::optional<Spot> spot = draft->Find(IsCollective);
  if (!spot) return false;
  Op extra = Planted(spot->op);
  extra.function = Function::ncclAllReduce;
  extra.count = 7;
  extra.dtype = kFloat32;
  extra.reduction = kSum;
  extra.root = -1;
  Differ(draft, *spot);
  draft->Change(spot->rank, {.section = spot->section, .index = spot->index, .ops = {extra}});
  Say(draft, *spot, KindOfDifference(extra, spot->op), "makes a call that the others do not make");
  return true;
}

// It is seen once the rank makes the next call of the communicator; until then, and if it never gets there, it waits
// elsewhere while the others wait for it.
bool LeftOutCall(Draft* draft) {
  for (int tries = 0; tries < 40; ++tries) {
    const std::optional<Spot> spot = draft->Find(IsCollective);
    if (!spot) return false;
    const Ops ops = draft->job().PlainSection(spot->rank, spot->section);
    const int next = NextOf(ops, *spot);
    if (next < 0 || SameCall(ops[static_cast<std::size_t>(next)], spot->op)) continue;
    Differ(draft, *spot);
    draft->Change(spot->rank,
                  {.how = Edit::How::kReplace, .section = spot->section, .index = spot->index, .ops = {Nothing()}});
    Say(draft, *spot, KindOfDifference(ops[static_cast<std::size_t>(next)], spot->op), "leaves out a call");
    return true;
  }
  return false;
}

bool ReplacedCall(Draft* draft) {
  const std::optional<Spot> spot = draft->Find(IsCollective);
  if (!spot) return false;
  Op other = Planted(spot->op);
  other.function = other.function == Function::ncclAllReduce ? Function::ncclReduceScatter : Function::ncclAllReduce;
  other.reduction = kSum;
  other.root = -1;
  Differ(draft, *spot);
  draft->Change(spot->rank,
                {.how = Edit::How::kReplace, .section = spot->section, .index = spot->index, .ops = {other}});
  Say(draft, *spot, "order_mismatch", "calls another function");
  return true;
}

// A collective on a communicator beside the world's, the rank's last on it in the step, with calls after it in the
// step.
std::optional<Spot> LastOfStep(Draft* draft) {
  for (int tries = 0; tries < 40; ++tries) {
    std::optional<Spot> spot = draft->Find([](const Op& op) { return IsCollective(op) && op.comm != 0; });
    if (!spot) return std::nullopt;
    const Ops ops = draft->job().PlainSection(spot->rank, spot->section);
    const auto calls_after =
        std::count_if(ops.begin() + spot->index + 1, ops.end(), [](const Op& op) { return op.what == Do::kCall; });
    if (NextOf(ops, *spot) < 0 && calls_after >= 3) return spot;
  }
  return std::nullopt;
}

// What its own steps were can only be told once there have been some, as many as are needed to know a step, and while
// its ring still holds them.
bool KnowsItsSteps(Draft* draft, const Spot& spot) {
  const Ops ops = draft->job().PlainSection(spot.rank, 1);
  const auto calls = std::count_if(ops.begin(), ops.end(), [](const Op& op) { return op.what == Do::kCall; });
  return spot.section > 4 && 2 * 6 * calls < static_cast<std::ptrdiff_t>(draft->job().ring);
}

// No communicator shows it: it makes its next call there in the next step, which never comes.
bool LeftOutOfStep(Draft* draft) {
  const std::optional<Spot> spot = LastOfStep(draft);
  if (!spot) return false;
  draft->Change(spot->rank,
                {.how = Edit::How::kReplace, .section = spot->section, .index = spot->index, .ops = {Nothing()}});
  draft->look = Look::kAfterStall;
  draft->truth().answers = {Exactly("step_mismatch", {spot->rank})};
  if (!KnowsItsSteps(draft, *spot)) {
    draft->truth().answers.push_back(Exactly("missing_participant", {spot->rank}));
    draft->truth().answers.push_back({"deadlock", {spot->rank}, draft->job().comms[0].members});
  }
  draft->truth().may_be_certain = false;
  draft->truth().story = fmt::format("rank {} leaves out its last call of a step on a communicator", spot->rank);
  return true;
}

// The others never come to it.
bool ExtraInStep(Draft* draft) {
  const std::optional<Spot> spot = LastOfStep(draft);
  if (!spot) return false;
  Op extra = Planted(spot->op);
  extra.function = Function::ncclAllReduce;
  extra.count = 700;
  extra.dtype = kFloat32;
  extra.reduction = kSum;
  extra.root = -1;
  draft->Change(spot->rank, {.section = spot->section, .index = spot->index + 1, .ops = {extra}});
  draft->look = Look::kAfterStall;
  draft->truth().answers = {Exactly("step_mismatch", {spot->rank})};
  if (!KnowsItsSteps(draft, *spot)) {  // all that can be seen: it waits for the others
    draft->truth().answers.push_back({"missing_participant", {}, draft->CommAt(spot->op.comm).members});
    draft->truth().answers.push_back({"deadlock", {spot->rank}, draft->job().comms[0].members});
  }
  draft->truth().may_be_certain = false;
  draft->truth().story = fmt::format("rank {} makes a call at the end of a step that nobody else makes", spot->rank);
  return true;
}

}  // namespace

const std::vector<Fault> kCallFaults = {
    {"order_mismatch", OrderMismatch},   {"argument_mismatch", ArgumentMismatch}, {"extra_call", ExtraCall},
    {"left_out_call", LeftOutCall},      {"replaced_call", ReplacedCall},         {"equal_bytes", EqualBytes},
    {"left_out_of_step", LeftOutOfStep}, {"extra_in_step", ExtraInStep},
};

}  // namespace ncclwatch::jobs
