#include "tests/jobs/simulator/generate.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "ncclwatch/format/fingerprint.h"
#include "simulation/causes.h"
#include "tests/jobs/simulator/fault.h"
#include "tests/jobs/simulator/topology.h"

namespace ncclwatch::jobs {
namespace {

const Fault* FaultOf(const std::string& name) {
  for (const std::vector<Fault>* faults :
       {&kRankFaults, &kCallFaults, &kMessageFaults, &kPeerFaults, &kErrorFaults, &kDeadlockFaults})
    for (const Fault& fault : *faults)
      if (name == fault.name) return &fault;
  return nullptr;
}

// What GPU marks do not add to.
bool SeenWithoutMarks(const std::string& fault) {
  static const std::set<std::string> kFaults = {"dead_rank",      "early_exit",          "missing_participant",
                                                "order_mismatch", "argument_mismatch",   "extra_call",
                                                "replaced_call",  "initialization_hang", "initialization_size",
                                                "library_error",  "out_of_memory",       "memory_granted",
                                                "healthy"};
  return kFaults.contains(fault);
}

// When the job, before its end begins, can lose a rank.
std::int64_t RandomInstant(const World& world, int rank, Dice* dice) {
  const RankHistory& own = world.rank(rank);
  std::int64_t last = own.records.back().entered;
  for (const LocalComm& comm : own.comms) last = std::min(last, comm.finalizing);
  const std::int64_t first = own.records.front().entered + kMilli;
  return dice->Between(first, std::max(first + 1, last - 10 * kMilli));
}

// The instant from which on boxes show the difference; kNever if the odd one never makes its call.
std::int64_t DifferenceSeen(const Draft& draft, const World& world) {
  std::int64_t seen = 0;
  for (const int rank : draft.made->job.comms[static_cast<std::size_t>(draft.comm)].members) {
    std::int64_t at = kNever;
    const RankHistory& own = world.rank(rank);
    for (const Record& record : own.records) {
      if (record.comm < 0 || own.comms[static_cast<std::size_t>(record.comm)].comm != draft.comm) continue;
      if (functions::IsCollective(record.function) && record.position == draft.position) {
        at = record.entered;
        break;
      }
    }
    if (at == kNever && rank == draft.odd) return kNever;
    if (at != kNever) seen = std::max(seen, at);
  }
  return seen;
}

// A verdict takes back what it thinks was later, and the wall clocks of two nodes are that far apart at most.
constexpr std::int64_t kClocksApart = 10 * kMilli;

void ChooseInstant(Draft* draft) {
  Generated& made = *draft->made;
  Dice& dice = draft->dice;
  std::int64_t ended = made.world->ended();
  for (const Reported& reported : made.reported) ended = std::max(ended, reported.at);
  switch (draft->look) {
    case Look::kAnytime: made.now = dice.Between(200 * kMilli, ended + kSecond / 10); return;
    case Look::kAfterDeath: made.now = ended + dice.Between(800 * kMilli, 20 * kSecond); return;
    case Look::kAfterStall: made.now = ended + dice.Between(12 * kSecond, 100 * kSecond); return;
    case Look::kSoon: break;
  }
  const std::int64_t seen = DifferenceSeen(*draft, *made.world);
  if (seen == kNever) {  // it waits elsewhere, for those who wait for it
    made.truth.answers = {{"deadlock", {draft->odd}, {}, false, 2},
                          Exactly("missing_participant", {draft->odd}),
                          Exactly("step_mismatch", {draft->odd})};
    draft->cycle = true;
    made.now = ended + dice.Between(12 * kSecond, 100 * kSecond);
  } else if (made.world->hung()) {
    made.now = ended + dice.Between(kClocksApart, 30 * kSecond);
  } else {
    made.now = seen + dice.Between(kClocksApart, 3 * kClocksApart);
  }
}

// Somebody's ring has gone past the first difference: what is left of it may look like another one.
bool Overwritten(const Draft& draft, const Generated& made) {
  for (const int rank : made.job.comms[static_cast<std::size_t>(draft.comm)].members) {
    std::size_t head = 0, held = SIZE_MAX;
    const RankHistory& own = made.world->rank(rank);
    for (; head < own.records.size() && own.records[head].entered <= made.now + kReadLate; ++head) {
      const Record& record = own.records[head];
      if (held != SIZE_MAX || record.comm < 0 || !functions::IsCollective(record.function)) continue;
      if (own.comms[static_cast<std::size_t>(record.comm)].comm == draft.comm && record.position == draft.position)
        held = head;
    }
    if (held != SIZE_MAX && held + made.job.ring <= head + 1) return true;
  }
  return false;
}

// The ranks of a deadlock are those of the cycle that the simulation shows; without a hang there is none.
void CloseCycle(Draft* draft) {
  Truth& truth = draft->truth();
  if (!draft->made->world->hung()) {
    if (truth.answers.front().kind != "deadlock") return;
    truth.answers.clear();
    truth.silence = true;
    draft->look = Look::kAnytime;
    return ChooseInstant(draft);
  }
  const std::vector<int> cycle = Causes(*draft->made->world).InCycles();
  for (Answer& answer : truth.answers)
    if (answer.kind == "deadlock") answer.within = cycle;
}

// Somebody has made a collective that the rank has not made.
bool MissedInACollective(const World& world, int rank) {
  for (const LocalComm& own : world.rank(rank).comms)
    for (int other = 0; other < world.ranks(); ++other)
      for (const LocalComm& comm : world.rank(other).comms)
        if (comm.comm == own.comm && comm.entered > own.entered) return true;
  return false;
}

void AllowForLoss(Draft* draft) {
  Truth& truth = draft->truth();
  truth.silence = true;
  const Comm& comm = draft->CommAt(draft->comm);
  for (const char* kind : {"order_mismatch", "argument_mismatch"}) {
    truth.answers.push_back(OddOneOut(kind, comm, draft->odd));
    truth.answers.back().may_be_certain = false;
  }
}

void Run(Draft* draft) {
  Generated& made = *draft->made;
  made.world = std::make_unique<World>(made.job);
  made.world->Run();
  if (draft->doomed < 0) return;
  const std::int64_t at = RandomInstant(*made.world, draft->doomed, &draft->dice);
  made.world = std::make_unique<World>(made.job);
  if (draft->freezes) {
    made.world->Freeze(draft->doomed, at);
  } else {
    made.world->Kill(draft->doomed, at);
  }
  made.world->Run();
}

// Jobs of one seed and different kinds have nothing in common.
Shape OfItsOwn(Shape shape) {
  for (const std::string& name : {shape.topology, shape.fault})
    for (const char c : name) shape.seed = Scramble(shape.seed ^ static_cast<unsigned char>(c));
  shape.seed = Scramble(shape.seed ^ static_cast<std::uint64_t>(shape.ranks));
  return shape;
}

}  // namespace

const std::vector<std::string>& FaultNames() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const std::vector<Fault>* faults :
         {&kRankFaults, &kCallFaults, &kMessageFaults, &kErrorFaults, &kDeadlockFaults})
      for (const Fault& fault : *faults) all.emplace_back(fault.name);
    std::stable_partition(all.begin(), all.end(), [](const std::string& name) { return name != "healthy"; });
    return all;
  }();
  return names;
}

bool Generate(const Shape& wanted, Generated* made) {
  const Shape shape = OfItsOwn(wanted);
  const Fault* fault = FaultOf(shape.fault);
  if (fault == nullptr || !MakeHealthy(shape, &made->job)) return false;
  Draft draft{.made = made, .dice = Dice(shape.seed, 0xfa17)};
  constexpr Job::Starts kStarts[] = {Job::Starts::kNone, Job::Starts::kSome, Job::Starts::kAll, Job::Starts::kAll};
  made->job.starts = kStarts[Chance(shape.seed).Bits(0x57a7) % 4];
  made->truth.fault = shape.fault;
  made->exits_known = !draft.dice.OneIn(6);
  made->verdict = draft.dice.OneIn(2);
  if (!fault->plant(&draft)) return false;
  if (SeenWithoutMarks(shape.fault)) made->job.marks = !draft.dice.OneIn(10);
  Run(&draft);
  if (draft.error) TellError(&draft);
  ChooseInstant(&draft);
  if (draft.cycle) CloseCycle(&draft);
  if (shape.fault == "missing_participant" && made->truth.answers.size() > 1 &&
      MissedInACollective(*made->world, made->truth.answers.front().include.front()))
    made->truth.answers.resize(1);
  AddAftermath(&draft);
  if (draft.odd >= 0 && Overwritten(draft, *made)) AllowForLoss(&draft);
  // NCCL passes it, and soon the rings have gone past it.
  if (shape.fault.starts_with("message_") && !made->world->hung()) {
    made->truth.silence = true;
    made->now = made->world->planted_ns() + draft.dice.Between(kClocksApart, 2 * kClocksApart);
  }
  if (!made->truth.may_be_certain)
    for (Answer& answer : made->truth.answers) answer.may_be_certain = false;
  return true;
}

std::string CommandOf(const Shape& shape) {
  return fmt::format("generate_job --topology {} --fault {} --ranks {} --seed {}{}{}", shape.topology, shape.fault,
                     shape.ranks, shape.seed, shape.steps > 0 ? fmt::format(" --steps {}", shape.steps) : "",
                     shape.late ? " --late" : "");
}

std::optional<Spot> Draft::Find(const std::function<bool(const Op&)>& wanted, bool begin, bool grouped) {
  for (int tries = 0; tries < 60; ++tries) {
    Spot spot;
    spot.rank = AnyRank();
    spot.section = begin && dice.OneIn(4) ? 0 : AnyStep();
    const Ops ops = job().PlainSection(spot.rank, spot.section);
    std::vector<int> fitting;
    int depth = 0;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      if (ops[i].what == Do::kGroupStart) ++depth;
      if (wanted(ops[i]) && (grouped || depth == 0)) fitting.push_back(static_cast<int>(i));
      if (ops[i].what == Do::kGroupEnd) --depth;
    }
    if (fitting.empty()) continue;
    spot.index = fitting[static_cast<std::size_t>(dice.Below(static_cast<int>(fitting.size())))];
    spot.op = ops[static_cast<std::size_t>(spot.index)];
    return spot;
  }
  return std::nullopt;
}

Op Planted(Op op) {
  op.planted = true;
  return op;
}

Op Nothing() { return {.what = Do::kWork, .planted = true, .ns = 0}; }

Answer OddOneOut(const std::string& kind, const Comm& comm, int rank) {
  Answer answer = Exactly(kind, {rank});
  if (comm.size() == 2) answer.within = comm.members;
  answer.voters = comm.members;
  return answer;
}

std::vector<int> BothSides(const Draft& draft, const Spot& spot) {
  std::vector<int> both = {spot.rank, draft.CommAt(spot.op.comm).members[static_cast<std::size_t>(spot.op.root)]};
  std::sort(both.begin(), both.end());
  both.erase(std::unique(both.begin(), both.end()), both.end());
  return both;
}

std::string KindOfDifference(const Op& one, const Op& other) {
  return one.function != other.function ? "order_mismatch" : "argument_mismatch";
}

}  // namespace ncclwatch::jobs
