#include "simulation/world.h"

#include <algorithm>
#include <utility>

#include "ncclwatch/format/fingerprint.h"

namespace ncclwatch::simulation {
namespace {

constexpr std::int64_t kCall = 8 * kMicro;  // what a call costs its host
// A host that waits for nobody lets the others go on now and then: what their GPUs have finished takes no room.
constexpr int kShortestTurn = 16, kLongestTurn = 64, kOperationsOfRound = 1 << 16;

}  // namespace

World::World(const Workload& workload)
    : workload_(workload),
      chance_(workload.seed),
      ranks_(static_cast<std::size_t>(workload.ranks)),
      instances_(workload.comms.size()),
      first_instance_(workload.comms.size(), 0) {
  for (const Comm& comm : workload.comms)
    spans_nodes_.push_back(workload.node_of(comm.members.front()) != workload.node_of(comm.members.back()) ? 1 : 0);
  for (int rank = 0; rank < workload.ranks; ++rank) {
    const std::int64_t begins = workload.Begins(rank);
    Of(rank).now =
        begins != kNever ? begins : chance_.Between(0, 400 * kMilli, 0x57a27, static_cast<std::uint64_t>(rank));
    runnable_.push_back(rank);
    Of(rank).records.reserve(workload.Calls(rank));
    for (const int comm : workload.Has(rank)) {
      LocalComm& local = Of(rank).comms.emplace_back();
      local.comm = comm;
      local.rank = static_cast<std::uint32_t>(CommAt(comm).RankOf(rank));
      local.claimed_size = static_cast<std::uint32_t>(CommAt(comm).size());
      local.created = local.ready = Of(rank).now;
    }
  }
}

std::int64_t World::Roll(int rank, std::int64_t ns) {
  const double unit = chance_.Unit(0x2011, static_cast<std::uint64_t>(rank), ++Of(rank).rolls);
  return static_cast<std::int64_t>(static_cast<double>(ns) * (1 + workload_.jitter * unit));
}

void World::Run() {
  while (!runnable_.empty() || !begun_.empty()) {
    while (!begun_.empty()) {
      const int kernel = begun_.back();
      begun_.pop_back();
      BeginKernel(kernel);
    }
    if (runnable_.empty()) break;
    const int rank = runnable_.back();
    runnable_.pop_back();
    RunHost(rank);
  }
}

void World::RunHost(int r) {
  RankState& rank = Of(r);
  rank.state = RankState::State::kRunning;
  const int longest = std::clamp(kOperationsOfRound / ranks(), kShortestTurn, kLongestTurn);
  for (int turn = 0; rank.state == RankState::State::kRunning; ++turn) {
    if (turn == longest) {
      runnable_.push_front(r);
      return;
    }
    if (rank.now > rank.host_stop) {
      rank.state = RankState::State::kOver;
    } else if (rank.next == rank.ops.size()) {
      rank.next = 0;
      rank.ops.clear();
      rank.done = !workload_.Next(r, ++rank.section, &rank.ops);
      if (!rank.done) continue;
      rank.state = RankState::State::kOver;
      rank.ops = Ops();
      return;
    } else {
      Op& op = rank.ops[rank.next++];
      rank.now = Later(rank.now, std::exchange(op.before_ns, 0));  // once, however often it is tried
      if (op.planted) planted_ = std::min(planted_, rank.now);
      if (workload_.pause > 0 && chance_.Unit(0xba5e, static_cast<std::uint64_t>(r), ++rank.rolls) < workload_.pause)
        rank.now += chance_.Between(0, workload_.longest_pause, 0xba5f, static_cast<std::uint64_t>(r), rank.rolls);
      Execute(r, op);
    }
  }
}

// A kernel of the application, behind what its stream, and another, has been given.
void World::LaunchOwn(int r, const Op& op, std::int64_t length) {
  RankState& rank = Of(r);
  const int kernel = NewKernel(r, rank.now);
  kernels_[static_cast<std::size_t>(kernel)].length = length;
  Need(kernel, rank.streams[op.stream]);
  if (op.what == Do::kWait) Need(kernel, rank.streams[op.other]);
  rank.streams[op.stream] = {kernel, 0};
  if (kernels_[static_cast<std::size_t>(kernel)].needs == 0) begun_.push_back(kernel);
}

void World::Execute(int r, const Op& op) {
  RankState& rank = Of(r);
  switch (op.what) {
    case Do::kCall: return Call(r, op);
    case Do::kGroupStart: {
      const std::size_t record = Enter(r, op, -1);
      rank.group = static_cast<std::uint32_t>(record + 1);
      DetailOf(rank, record).group = rank.group;
      rank.records[record].function = Function::ncclGroupStart;
      rank.now += kMicro;
      rank.records[record].returned = rank.now;
      return;
    }
    case Do::kGroupEnd: return GroupEnd(r, op);
    case Do::kInit:
    case Do::kSplit: return Create(r, op);
    case Do::kDestroy: return Destroy(r, op);
    case Do::kKernel:
      rank.now += Roll(r, 4 * kMicro);
      return LaunchOwn(r, op, op.ns == kNever ? kNever : Roll(r, op.ns));
    // A kernel without length stands for the event.
    case Do::kWait: return LaunchOwn(r, op, 0);
    case Do::kSync:
      if (WaitFor(r, rank.streams[op.stream])) --rank.next;  // again, once that has ended
      return;
    // A long pause is one that all make together: a checkpoint.
    case Do::kWork: rank.now += op.ns < kSecond ? Roll(r, op.ns) : op.ns + Roll(r, kMilli); return;
    case Do::kAllocate:
      rank.refused.push_back({rank.now, op.root == 0 ? kNever : rank.now + 30 * kMilli});
      rank.now += 50 * kMilli;
      return;
    case Do::kHang: rank.state = RankState::State::kOver; return;
    case Do::kExit:
      rank.exited = rank.gpu_stop = rank.host_stop = rank.now;
      rank.status = op.root;
      rank.state = RankState::State::kOver;
      return;
    case Do::kBegin: return Begin(r, op);
    case Do::kEnter: {
      const std::size_t record = Enter(r, op, op.comm < 0 ? -1 : LocalOf(r, op.comm));
      if (op.ns == kNever) return;
      rank.now = Later(rank.now, op.ns);
      rank.records[record].returned = rank.now;
      return;
    }
    case Do::kMeet: return Meet(r, op);
    case Do::kAwait: return Await(r, op);
    case Do::kLeave: return Leave(r, op);
    case Do::kForever: rank.state = RankState::State::kWaiting; return;
  }
}

int World::LocalOf(int rank, int comm) const {
  const std::vector<LocalComm>& comms = ranks_[static_cast<std::size_t>(rank)].comms;
  for (std::size_t i = comms.size(); i > 0; --i)  // the newest, where it was made again
    if (comms[i - 1].comm == comm) return static_cast<int>(i - 1);
  return -1;
}

std::size_t World::Enter(int r, const Op& op, int comm) {
  RankState& rank = Of(r);
  Record& record = rank.records.emplace_back();
  record.entered = rank.now;
  record.comm = comm;
  record.function = op.function;
  if (workload_.details)
    rank.details.push_back({.count = op.count,
                            .group = rank.group,
                            .root = op.root,
                            .site = op.site,
                            .dtype = op.dtype,
                            .reduction = op.reduction,
                            .stream = op.stream});
  if (rank.group != 0) record.flags |= format::kGrouped;
  return rank.records.size() - 1;
}

void World::EnterCollective(LocalComm* comm, const Op& op, Record* record) {
  record->position = static_cast<std::uint32_t>(comm->entered);
  record->chain = comm->chain;
  if (op.count == 0 && !functions::IsMpi(op.function)) {
    record->flags |= format::kEmpty;
    return;
  }
  const bool refused = op.result == 4 || op.result == 5;
  record->chain = format::Chain(
      comm->chain, format::Fingerprint(op.function, op.count, op.dtype, op.reduction, op.root, op.signature));
  if (refused) return;
  comm->chain = record->chain;
  ++comm->entered;
}

void World::Call(int r, const Op& op) {
  RankState& rank = Of(r);
  const int local = LocalOf(r, op.comm);
  const std::size_t at = Enter(r, op, local);
  Record& record = rank.records[at];
  if (IsMessage(op)) {
    auto& [sends, receives] = rank.peers[static_cast<std::uint64_t>(local) << 32 | static_cast<std::uint32_t>(op.root)];
    record.position = static_cast<std::uint32_t>(op.function == Function::ncclSend ? sends++ : receives++);
  } else {
    EnterCollective(&rank.comms[static_cast<std::size_t>(local)], op, &record);
  }
  rank.now = Later(rank.now, op.ns != 0 ? op.ns : Roll(r, rank.group != 0 ? kMicro : kCall));
  if (rank.group != 0) {
    rank.grouped.push_back({op, at});
    return;
  }
  DetailOf(rank, at).result = op.result;
  record.returned = rank.now;
  const std::pair<Op, std::size_t> alone(op, at);
  if (op.result == 0) Launch(r, {&alone, 1}, rank.now);
}

void World::GroupEnd(int r, const Op& op) {
  RankState& rank = Of(r);
  const std::size_t at = Enter(r, op, -1);
  rank.records[at].function = Function::ncclGroupEnd;
  rank.now = Later(rank.now, op.ns != 0 ? op.ns : Roll(r, 2 * kCall));
  std::vector<std::pair<Op, std::size_t>> calls;
  calls.swap(rank.grouped);
  for (const auto& [call, record] : calls) {
    rank.records[record].returned = rank.now;
    DetailOf(rank, record).result = op.result;
  }
  rank.records[at].returned = rank.now;
  DetailOf(rank, at).result = op.result;
  rank.group = 0;
  if (op.result == 0) Launch(r, calls, rank.now);
}

// False if there is nothing to wait for any more; its host has then waited for it.
bool World::WaitFor(int r, const Tail& tail) {
  RankState& rank = Of(r);
  if (tail.kernel < 0) {
    rank.now = std::max(rank.now, tail.finish) + Roll(r, 10 * kMicro);
    return false;
  }
  rank.state = RankState::State::kWaiting;
  rank.waits_for = tail.kernel;
  return true;
}

void World::Wake(int r, std::int64_t at) {
  RankState& rank = Of(r);
  rank.now = std::max(rank.now, at);
  rank.waits_for = -1;
  runnable_.push_back(r);
}

void World::End(int r, std::int64_t at) {
  RankState& rank = Of(r);
  if (std::min(rank.exited, rank.killed) != kNever) return;
  rank.killed = at;
  rank.host_stop = std::min(rank.host_stop, at);
  rank.gpu_stop = std::min(rank.gpu_stop, at);
}

void World::Abort(int r, std::int64_t at) {
  RankState& rank = Of(r);
  for (std::size_t i = 0; i < rank.comms.size(); ++i) {
    LocalComm& comm = rank.comms[i];
    if (comm.destroyed != kNever || comm.ready == kNever) continue;
    comm.aborted = at;
    Record record;
    record.entered = at;
    record.returned = at + kMilli;
    record.comm = static_cast<std::int32_t>(i);
    record.function = Function::ncclCommAbort;
    rank.records.push_back(record);
    if (workload_.details) rank.details.emplace_back();
    if (rank.gpu_stop <= at) continue;
    for (std::int64_t& ticket : comm.tickets)
      if (ticket == kNever) ticket = at + kMilli;
  }
}

bool World::hung() const {
  return std::any_of(ranks_.begin(), ranks_.end(),
                     [](const RankState& rank) { return !rank.done && rank.exited == kNever; });
}

std::int64_t World::ended() const {
  std::int64_t last = 0;
  const auto note = [&](std::int64_t at) {
    if (at != kNever) last = std::max(last, at);
  };
  for (const RankState& rank : ranks_) {
    if (!rank.records.empty()) note(rank.records.back().entered);
    if (!rank.records.empty()) note(rank.records.back().returned);
    for (const std::int64_t at : {rank.exited, rank.killed, rank.frozen}) note(at);
    for (const LocalComm& comm : rank.comms)
      if (!comm.tickets.empty()) note(comm.tickets.back());
  }
  return last;
}

}  // namespace ncclwatch::simulation
