// The GPUs of a World: queues of kernels, and how the kernels of several ranks end together.
#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include "ncclwatch/format/fingerprint.h"
#include "simulation/world.h"

namespace ncclwatch::simulation {
namespace {

constexpr std::size_t kSteps = 8;  // messages that a connection takes in before they are received (NCCL_STEPS)

std::uint64_t BytesOf(const Op& op) { return op.count * functions::DatatypeBytes(op.dtype); }

// What a collective moves only: its kernel knows nothing of types.
bool OnlyMoves(Function function) {
  return function == Function::ncclAllGather || function == Function::ncclBroadcast ||
         function == Function::ncclAlltoAll;
}

// The data go from rank to rank, from the root or to it; -1: they do not.
int PlaceInChain(const Op& op, int rank, int size) {
  if (op.root < 0) return -1;
  if (op.function == Function::ncclBroadcast) return (rank - op.root + size) % size;
  if (op.function == Function::ncclReduce) return (rank - op.root - 1 + size) % size;
  return -1;
}

auto Key(const Op& op) {
  const bool moves = OnlyMoves(op.function);
  return std::make_tuple(static_cast<std::uint32_t>(op.function), moves ? BytesOf(op) : op.count,
                         moves ? std::uint8_t{0} : op.dtype, op.reduction, op.root);
}

}  // namespace

// Calls of one group become one kernel for each communicator, in the order of NCCL's hashes of these: the same on all
// ranks, and another one than the program's.
void World::Launch(int r, Calls calls, std::int64_t at) {
  if (calls.size() == 1) {
    const Op& op = calls.front().first;
    if (!IsMessage(op) && op.count == 0) return;
    MarkStarts(r, calls, at);
    LaunchOn(r, op.comm, calls, at);
    return Mark(r, calls);
  }
  using Place = std::pair<std::uint64_t, int>;  // by the communicator's hash (ncclGroupCommJoin)
  std::map<Place, std::vector<std::pair<Op, std::size_t>>> by_comm;
  for (const auto& call : calls) {
    const int comm = call.first.comm;
    if (IsMessage(call.first) || call.first.count > 0)
      by_comm[{chance_.Bits(0x6a54, static_cast<std::uint64_t>(comm)), comm}].push_back(call);
  }
  for (const auto& [place, own] : by_comm) MarkStarts(r, own, at);
  for (const auto& [place, own] : by_comm) LaunchOn(r, place.second, own, at);
  for (const auto& [place, own] : by_comm) Mark(r, own);
}

void World::LaunchOn(int r, int comm, Calls calls, std::int64_t at) {
  RankState& rank = Of(r);
  const int local = LocalOf(r, comm);
  LocalComm& own = rank.comms[static_cast<std::size_t>(local)];
  const int k = NewKernel(r, at);
  Need(k, own.tail);
  own.tail = {k, 0};
  for (const auto& [op, record] : calls) {
    if (rank.streams[op.stream].kernel != k) {
      Need(k, rank.streams[op.stream]);
      rank.streams[op.stream] = {k, 0};
    }
  }
  Kernel& kernel = kernels_[static_cast<std::size_t>(k)];
  kernel.comm = local;
  for (const auto& [op, record] : calls) kernel.records.push_back(record);
  AddTasks(calls, &own, &kernel);
  if (kernel.needs == 0) begun_.push_back(k);
}

void World::AddTasks(Calls calls, LocalComm* comm, Kernel* kernel) {
  auto& tasks = kernel->tasks;
  for (const auto& [op, record] : calls)
    if (!IsMessage(op)) tasks.push_back({false, 0, op});
  if (tasks.size() > 1)
    std::stable_sort(tasks.begin(), tasks.end(), [](const Task& a, const Task& b) { return Key(a.op) < Key(b.op); });
  for (Task& task : tasks) task.number = comm->launched++;
  for (const auto& [op, record] : calls)
    if (IsMessage(op)) tasks.push_back({true, messages_++, op});
  kernel->tasks_left = static_cast<int>(tasks.size());
}

// One for each communicator and stream, before all kernels of the group: behind what is on the stream by then. That a
// kernel of the same communicator on another stream comes first it does not know.
void World::MarkStarts(int r, Calls calls, std::int64_t at) {
  RankState& rank = Of(r);
  std::int32_t start_of[kStreams];
  std::fill(std::begin(start_of), std::end(start_of), -1);
  for (const auto& [op, slot] : calls) {
    Record& record = rank.records[slot];
    std::int32_t& start = start_of[op.stream];
    if (start < 0) {
      LocalComm& comm = rank.comms[static_cast<std::size_t>(record.comm)];
      std::vector<std::int64_t>& starts = comm.starts;
      comm.start_streams.push_back(op.stream);
      const Tail& tail = rank.streams[op.stream];
      start = static_cast<std::int32_t>(starts.size());
      starts.push_back(tail.kernel < 0 ? std::max(tail.finish, at) : kNever);
      if (tail.kernel >= 0)
        kernels_[static_cast<std::size_t>(tail.kernel)].starts.push_back({record.comm, starts.size() - 1});
    }
    record.start = start;
  }
}

// One mark for each communicator and stream, behind all kernels of the group that are on that stream.
void World::Mark(int r, Calls calls) {
  RankState& rank = Of(r);
  std::int32_t ticket_of[kStreams];
  std::fill(std::begin(ticket_of), std::end(ticket_of), -1);
  for (const auto& [op, at] : calls) {
    Record& record = rank.records[at];
    std::int32_t& ticket = ticket_of[op.stream];
    if (ticket < 0) {
      std::vector<std::int64_t>& tickets = rank.comms[static_cast<std::size_t>(record.comm)].tickets;
      const Tail& tail = rank.streams[op.stream];
      ticket = static_cast<std::int32_t>(tickets.size());
      tickets.push_back(tail.kernel < 0 ? tail.finish : kNever);
      if (tail.kernel >= 0)
        kernels_[static_cast<std::size_t>(tail.kernel)].marks.push_back({record.comm, tickets.size() - 1});
    }
    record.ticket = ticket;
    record.flags |= format::kMarked;
  }
}

int World::NewKernel(int rank, std::int64_t at) {
  int k = static_cast<int>(kernels_.size());
  if (free_.empty()) {
    kernels_.emplace_back();
  } else {
    k = free_.back();
    free_.pop_back();
  }
  Kernel& kernel = kernels_[static_cast<std::size_t>(k)];
  kernel.rank = rank;
  kernel.comm = -1;
  kernel.record = -1;
  kernel.ready = at;
  kernel.length = kernel.finish = 0;
  kernel.needs = kernel.tasks_left = 0;
  return k;
}

void World::Need(int k, const Tail& tail) {
  Kernel& kernel = kernels_[static_cast<std::size_t>(k)];
  if (tail.kernel < 0) {
    kernel.ready = std::max(kernel.ready, tail.finish);
    return;
  }
  if (tail.kernel == k) return;
  kernels_[static_cast<std::size_t>(tail.kernel)].next.push_back(k);
  ++kernel.needs;
}

void World::BeginKernel(int k) {
  Kernel& kernel = kernels_[static_cast<std::size_t>(k)];
  if (kernel.ready > Of(kernel.rank).gpu_stop) return;
  if (kernel.tasks.empty()) {
    if (kernel.length != kNever) EndKernel(k, kernel.ready + kernel.length);
    return;
  }
  // The last task to end may free the kernel.
  const Kernel::Few<Task> begins = std::exchange(kernel.tasks, {});
  for (const Task& task : begins) {
    if (task.message) {
      functions::IsMpi(task.op.function) ? ArriveMpiMessage(k, task) : ArriveMessage(k, task);
    } else {
      ArriveCollective(k, task);
    }
  }
}

std::int64_t World::StopOf(int comm, int r) const {
  const RankState& rank = ranks_[static_cast<std::size_t>(r)];
  return spans_nodes_[static_cast<std::size_t>(comm)] != 0 ? std::min(rank.gpu_stop, rank.net_stop) : rank.gpu_stop;
}

void World::ArriveCollective(int k, const Task& task) {
  const Kernel& kernel = kernels_[static_cast<std::size_t>(k)];
  const auto comm = static_cast<std::size_t>(task.op.comm);
  std::deque<Instance>& instances = instances_[comm];
  while (task.number - first_instance_[comm] >= instances.size()) instances.emplace_back();
  Instance& instance = instances[task.number - first_instance_[comm]];
  if (instance.arrivals.empty()) {
    instance.first = task.op;
    if (!arrivals_.empty()) {
      instance.arrivals = std::move(arrivals_.back());
      arrivals_.pop_back();
    }
  }
  if (!functions::IsMpi(task.op.function)) instance.differs = instance.differs || Key(task.op) != Key(instance.first);
  instance.stalls = instance.stalls || task.op.stalls;
  instance.ready = std::max(instance.ready, kernel.ready);
  instance.arrivals.push_back({k, kernel.rank, BytesOf(task.op), false, kernel.ready});
  if (functions::IsMpi(task.op.function)) {
    ArriveMpiCollective(task.op, &instance);
    if (static_cast<int>(instance.arrivals.size()) == CommAt(task.op.comm).size()) Forget(task.op.comm, task.number);
    return;
  }
  const std::size_t last = instance.arrivals.size() - 1;
  if (BytesOf(task.op) <= workload_.eager) PassOn(&instance, last);
  if (static_cast<int>(instance.arrivals.size()) == CommAt(task.op.comm).size())
    EndInstance(task.op.comm, task.number, &instance);
}

// With room in its neighbour's buffers a rank of a chain (ring, Broadcast and Reduce) is done once all before it have
// passed the data on, and does not wait for those behind it.
void World::PassOn(Instance* instance, std::size_t arrival) {
  const Op& op = instance->first;
  const Comm& comm = CommAt(op.comm);
  const int place = PlaceInChain(op, comm.RankOf(instance->arrivals[arrival].rank), comm.size());
  if (place < 0 || instance->differs || instance->stalls) return;
  instance->chain.resize(comm.members.size(), -1);
  instance->chain[static_cast<std::size_t>(place)] = static_cast<int>(arrival);
  for (; instance->passed < instance->chain.size() && instance->chain[instance->passed] >= 0; ++instance->passed) {
    Arrival& next = instance->arrivals[static_cast<std::size_t>(instance->chain[instance->passed])];
    const std::int64_t ready = kernels_[static_cast<std::size_t>(next.kernel)].ready;
    instance->chain_ready = std::max(instance->chain_ready, ready) + 2 * kMicro;
    if (instance->chain_ready > StopOf(op.comm, next.rank)) return;
    next.over = true;
    EndTask(next.kernel, instance->chain_ready + 20 * kMicro);
  }
}

void World::EndInstance(int comm, std::uint64_t number, Instance* instance) {
  std::int64_t stop = kNever;
  std::uint64_t most = 0;
  for (const Arrival& arrival : instance->arrivals) {
    stop = std::min(stop, StopOf(comm, arrival.rank));
    most = std::max(most, arrival.amount);
  }
  const std::int64_t length =
      workload_.costs ? CollectiveNs(instance->first)
                      : 30 * kMicro + chance_.Between(0, 300 * kMicro, 0xe4d, number, static_cast<std::uint64_t>(comm));
  const std::int64_t ends = instance->ready + length;
  std::vector<Arrival> arrivals = std::move(instance->arrivals);
  const bool differs = instance->differs, stalls = instance->stalls;
  Forget(comm, number);
  if (stalls || (differs && workload_.differ == Workload::Differ::kHang)) return;
  for (const Arrival& arrival : arrivals) {
    const std::int64_t at = workload_.costs ? ends
                                            : ends + chance_.Between(0, 8 * kMicro, 0xe4e, number,
                                                                     static_cast<std::uint64_t>(arrival.rank));
    if (arrival.over || at > stop) continue;
    if (differs && workload_.differ == Workload::Differ::kLessEnds && arrival.amount == most) continue;
    EndTask(arrival.kernel, at);
  }
  arrivals.clear();
  arrivals_.push_back(std::move(arrivals));
}

// All have come, and what becomes of them is settled.
void World::Forget(int comm, std::uint64_t number) {
  const auto c = static_cast<std::size_t>(comm);
  instances_[c][number - first_instance_[c]].arrivals.clear();
  // Of several communicators' order: those before it may still be open.
  if (number != first_instance_[c]) return;
  instances_[c].pop_front();
  ++first_instance_[c];
}

void World::ArriveMessage(int k, const Task& task) {
  const Kernel& kernel = kernels_[static_cast<std::size_t>(k)];
  const int own = static_cast<int>(Of(kernel.rank).comms[static_cast<std::size_t>(kernel.comm)].rank);
  const bool sends = task.op.function == Function::ncclSend;
  const int from = sends ? own : task.op.root, to = sends ? task.op.root : own;
  if (task.op.root < 0 || task.op.root >= CommAt(task.op.comm).size()) return;  // nobody answers
  const std::uint64_t key = static_cast<std::uint64_t>(task.op.comm) << 40 | static_cast<std::uint64_t>(from) << 20 |
                            static_cast<std::uint64_t>(to);
  Pair& pair = pairs_[key];
  std::deque<Side>& sides = sends ? pair.sends : pair.receives;
  sides.push_back({.kernel = k,
                   .ready = kernel.ready,
                   .bytes = BytesOf(task.op),
                   .over = task.op.stalls,
                   .longer = task.op.longer});
  if (task.op.stalls) sides.back().kernel = -1;  // it never ends, nor does the other
  if (sends && !task.op.stalls && BytesOf(task.op) <= workload_.eager && pair.sends.size() < kSteps) {
    sides.back().over = true;
    EndTask(k, kernel.ready + 10 * kMicro);
  }
  EndMessages(task.op.comm, from, to, &pair);
}

void World::EndMessages(int comm, int from, int to, Pair* pair) {
  const Comm& members = CommAt(comm);
  const std::int64_t stop = std::min(StopOf(comm, members.members[static_cast<std::size_t>(from)]),
                                     StopOf(comm, members.members[static_cast<std::size_t>(to)]));
  while (!pair->sends.empty() && !pair->receives.empty()) {
    const Side send = pair->sends.front(), receive = pair->receives.front();
    pair->sends.pop_front();
    pair->receives.pop_front();
    const std::int64_t flight =
        workload_.costs
            ? workload_.costs->NcclMessage(
                  send.bytes, send.longer * workload_.Stretch(comm, members.members[static_cast<std::size_t>(from)],
                                                              members.members[static_cast<std::size_t>(to)]))
            : 15 * kMicro + static_cast<std::int64_t>(send.bytes / 100);
    const std::int64_t ends = std::max(send.ready, receive.ready) + flight;
    if (send.kernel < 0 || receive.kernel < 0 || ends > stop) continue;
    // The side that moves more waits for the rest; a rest that fits into the buffers does not hold up a send.
    const bool send_ends = send.bytes <= receive.bytes || workload_.differ == Workload::Differ::kPass;
    if (send_ends && !send.over) EndTask(send.kernel, ends);
    if (receive.bytes <= send.bytes) EndTask(receive.kernel, ends + kMicro);
  }
}

void World::EndTask(int k, std::int64_t at) {
  Kernel& kernel = kernels_[static_cast<std::size_t>(k)];
  kernel.finish = std::max(kernel.finish, at);
  if (--kernel.tasks_left == 0) EndKernel(k, kernel.finish);
}

void World::EndKernel(int k, std::int64_t at) {
  Kernel& kernel = kernels_[static_cast<std::size_t>(k)];
  RankState& rank = Of(kernel.rank);
  if (at > rank.gpu_stop) return;
  for (Tail& tail : rank.streams)
    if (tail.kernel == k) tail = {-1, at};
  if (kernel.record >= 0) {
    rank.begun[static_cast<std::size_t>(kernel.record)] = {-1, at};
  } else if (kernel.comm >= 0) {
    Tail& tail = rank.comms[static_cast<std::size_t>(kernel.comm)].tail;
    if (tail.kernel == k) tail = {-1, at};
  }
  for (const auto& [comm, ticket] : kernel.marks) rank.comms[static_cast<std::size_t>(comm)].tickets[ticket] = at;
  for (const std::size_t record : kernel.records) DetailOf(rank, record).kernel_ns = at - kernel.ready;
  for (const auto& [comm, start] : kernel.starts) rank.comms[static_cast<std::size_t>(comm)].starts[start] = at;
  for (const int next : kernel.next) {
    Kernel& waiting = kernels_[static_cast<std::size_t>(next)];
    waiting.ready = std::max(waiting.ready, at);
    if (--waiting.needs == 0) begun_.push_back(next);
  }
  kernel.records.clear();
  kernel.marks.clear();
  kernel.starts.clear();
  kernel.next.clear();
  free_.push_back(k);
  if (rank.waits_for == k) Wake(kernel.rank, at);
}

}  // namespace ncclwatch::simulation
