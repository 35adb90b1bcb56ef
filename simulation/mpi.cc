// MPI in a World: messages and collectives that a host waits for, at once or later. Each is a kernel that no stream
// holds up.
#include <algorithm>
#include <utility>

#include "ncclwatch/format/fingerprint.h"
#include "ncclwatch/functions/pattern.h"
#include "simulation/world.h"

namespace ncclwatch::simulation {
namespace {

using functions::Pattern;

std::uint64_t ShapeOf(const Op& op) {
  return format::Fingerprint(op.function, op.count, op.dtype, op.reduction, op.root, op.signature);
}

// Who waits for whom in a collective of MPI. Data that fit into buffers let those go on who only give.
enum class Waits {
  kAll,        // for everybody
  kForRoot,    // those that are not the root: for the root
  kRootWaits,  // the root for everybody
  kForLower,   // for those of lower rank
};

Waits WaitsOf(Pattern pattern) {
  switch (pattern) {
    case Pattern::kBroadcast:
    case Pattern::kScatter: return Waits::kForRoot;
    case Pattern::kReduce:
    case Pattern::kGather: return Waits::kRootWaits;
    case Pattern::kScan: return Waits::kForLower;
    default: return Waits::kAll;
  }
}

}  // namespace

void World::Begin(int r, const Op& op) {
  RankState& rank = Of(r);
  const int local = LocalOf(r, op.comm);
  const std::size_t at = Enter(r, op, local);
  LocalComm& comm = rank.comms[static_cast<std::size_t>(local)];
  const bool message = functions::IsMessage(op.function);
  if (!message) EnterCollective(&comm, op, &rank.records[at]);
  rank.now += workload_.costs->Overhead();
  const int k = NewKernel(r, rank.now);
  Kernel& kernel = kernels_[static_cast<std::size_t>(k)];
  kernel.comm = local;
  kernel.record = static_cast<std::int64_t>(at);
  kernel.tasks.push_back({message, message ? messages_++ : comm.launched++, op});
  kernel.tasks_left = 1;
  rank.begun[at] = {k, 0};
  begun_.push_back(k);
}

void World::Meet(int r, const Op& op) {
  RankState& rank = Of(r);
  rank.creating = Enter(r, op, LocalOf(r, op.comm));
  rank.created = -1;
  rank.state = RankState::State::kWaiting;
  // MPI_Finalize is no match for what makes communicators.
  const std::uint64_t number = op.function == Function::MPI_Finalize ? 0 : ++rank.meetings[op.comm];
  Meet({op.comm, number}, r, CommAt(op.comm).size(), false);
}

void World::Await(int r, const Op& op) {
  RankState& rank = Of(r);
  const auto found = rank.begun.find(op.count);
  if (found == rank.begun.end()) return;
  rank.awaits = true;
  if (found->second.kernel >= 0) {
    rank.state = RankState::State::kWaiting;
    rank.waits_for = found->second.kernel;
    --rank.next;  // again, once that has ended
    return;
  }
  rank.now = std::max(rank.now, found->second.finish);
  rank.records[op.count].completed = rank.now;
  rank.begun.erase(found);
}

void World::Leave(int r, const Op& op) {
  RankState& rank = Of(r);
  const std::vector<std::int64_t>& late_ns = workload_.costs->late_ns;
  if (std::exchange(rank.awaits, false) && !late_ns.empty()) {
    const double unit = chance_.Unit(0x1a7e, static_cast<std::uint64_t>(r), ++rank.rolls);
    rank.now += late_ns[static_cast<std::size_t>(unit * static_cast<double>(late_ns.size()))];
  }
  rank.records[op.count].returned = rank.now;
}

void World::ArriveMpiMessage(int k, const Task& task) {
  const Kernel& kernel = kernels_[static_cast<std::size_t>(k)];
  const Op& op = task.op;
  if (op.root < 0) return;  // of anybody, and nobody was recorded
  const Comm& comm_of = CommAt(op.comm);
  const std::uint32_t own = Of(kernel.rank).comms[static_cast<std::size_t>(kernel.comm)].rank;
  const auto peer = static_cast<std::uint32_t>(op.root);
  const std::uint64_t ends = std::uint64_t{op.sends ? own : peer} << 32 | (op.sends ? peer : own);
  const std::uint64_t channel = static_cast<std::uint64_t>(op.comm) << 32 | static_cast<std::uint32_t>(op.tag);
  Pair& pair = pairs_[format::Mix(ends, channel)];
  std::deque<Side>& sides = op.sends ? pair.sends : pair.receives;
  sides.push_back({k, kernel.ready, op.bytes, false, op.synchronous});
  if (op.sends && (op.buffered || (!op.synchronous && op.bytes <= workload_.costs->eager))) {
    sides.back().over = true;
    EndTask(k, kernel.ready);
  }
  const std::vector<int>& members = comm_of.members;
  const std::uint32_t from = op.sends ? own : peer, to = op.sends ? peer : own;
  const bool known = from < members.size() && to < members.size();
  EndMpiMessages(&pair, known ? workload_.Stretch(op.comm, members[from], members[to]) : 1);
}

// The latency is that of the data, or of the answer that lets a large send begin.
void World::EndMpiMessages(Pair* pair, double stretch) {
  while (!pair->sends.empty() && !pair->receives.empty()) {
    const Side send = pair->sends.front(), receive = pair->receives.front();
    pair->sends.pop_front();
    pair->receives.pop_front();
    const std::int64_t begins = send.over ? send.ready : std::max(send.ready, receive.ready);
    const std::int64_t ends = std::max(begins + workload_.costs->MpiMessage(send.bytes, stretch), receive.ready);
    if (!send.over) EndTask(send.kernel, ends);
    // A message that is too long for its receive is an error that ends the job, unless all differences are let pass.
    if (send.bytes <= receive.bytes || workload_.differ == Workload::Differ::kPass) EndTask(receive.kernel, ends);
  }
}

// Called for each arrival, the newest one. Whoever has all that it waits for ends; the rest does so when that comes.
void World::ArriveMpiCollective(const Op& op, Instance* instance) {
  const Comm& comm = CommAt(op.comm);
  std::vector<Arrival>& arrivals = instance->arrivals;
  const bool everybody = static_cast<int>(arrivals.size()) == comm.size();
  if (ShapeOf(op) != ShapeOf(instance->first)) instance->differs = true;
  if (instance->differs && workload_.differ == Workload::Differ::kHang) return;
  const std::int64_t length = CollectiveNs(op), gives = workload_.costs->Overhead();
  const auto end = [&](Arrival* one, std::int64_t at) {
    if (!std::exchange(one->over, true)) EndTask(one->kernel, at);
  };
  Arrival& newest = arrivals.back();
  const int rank = comm.RankOf(newest.rank);
  Waits waits = WaitsOf(functions::PatternOfMpi(op.function));
  // Between two groups no record tells the root.
  if (waits != Waits::kForLower && (op.root < 0 || op.bytes > workload_.costs->eager)) waits = Waits::kAll;
  switch (waits) {
    case Waits::kAll: break;
    case Waits::kForRoot:
      if (rank == op.root) {
        instance->chain_ready = newest.ready;
        instance->passed = 1;
        for (Arrival& one : arrivals) end(&one, newest.ready + (&one == &newest ? gives : length));
      } else if (instance->passed != 0) {
        end(&newest, std::max(newest.ready, instance->chain_ready + length));
      }
      return;
    case Waits::kRootWaits:
      if (rank != op.root) end(&newest, newest.ready + gives);
      break;
    case Waits::kForLower:
      instance->chain.resize(comm.members.size(), -1);
      instance->chain[static_cast<std::size_t>(rank)] = static_cast<int>(arrivals.size() - 1);
      for (; instance->passed < instance->chain.size() && instance->chain[instance->passed] >= 0; ++instance->passed) {
        Arrival& next = arrivals[static_cast<std::size_t>(instance->chain[instance->passed])];
        instance->chain_ready = std::max(instance->chain_ready, next.ready);
        end(&next, instance->chain_ready + length);
      }
      return;
  }
  if (!everybody) return;
  for (Arrival& one : arrivals) end(&one, instance->ready + length);
}

}  // namespace ncclwatch::simulation
