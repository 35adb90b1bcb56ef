#include "tests/unit/support/mpi_job.h"

#include <algorithm>

#include "ncclwatch/format/mpi_record.h"

namespace ncclwatch::testing {
namespace {

format::Part Amount(std::uint64_t count, std::uint8_t dtype) {
  constexpr std::uint32_t kEmpty = 1;
  const auto signature = static_cast<std::uint32_t>(format::Mix(dtype, count)) | 2;
  return {count == 0 ? kEmpty : signature, dtype, 4, 4 * count};
}

}  // namespace

format::Part Ints(std::uint64_t count) { return Amount(count, kMpiInt); }
format::Part Floats(std::uint64_t count) { return Amount(count, kMpiFloat); }

MpiJob::MpiJob(int ranks) : Job(ranks, false) {
  Marks(false);
  MpiComm(Range(0, ranks));
}

int MpiJob::MpiComm(const std::vector<int>& ranks) {
  const int comm = Comm(ranks);
  for (const int rank : ranks) Entry(rank, comm).flags |= format::kCommMpi;
  return comm;
}

reader::Call& MpiJob::At(int rank, std::uint64_t slot) { return Box(rank).calls.at(slot - Box(rank).first_slot); }

reader::PeerCount& MpiJob::Counts(int rank, const reader::Communicator& entry, std::uint32_t peer) {
  std::vector<reader::PeerCount>& peers = Box(rank).peers;
  for (reader::PeerCount& known : peers)
    if (known.communicator == entry.index && known.peer == peer) return known;
  return peers.emplace_back(reader::PeerCount{entry.index, entry.generation, peer, 0, 0});
}

std::uint64_t MpiJob::Put(int rank, const MpiMessage& message, std::uint64_t position, std::uint32_t chain,
                          Function otherwise) {
  const reader::Communicator& entry = Entry(rank, message.comm);
  reader::Call call;
  call.function = message.function == Function::kNone ? otherwise : message.function;
  call.communicator = entry.index;
  call.generation = entry.generation;
  call.position = position;
  call.chain = chain;
  call.root = message.peer;
  call.tag = message.tag;
  call.bytes = message.bytes;
  call.count = message.bytes / 4;
  call.dtype = message.dtype;
  call.signature = message.signature;
  call.flags = message.flags;
  if (message.peer == kNobody) call.flags |= format::kNoPartner;
  return Append(rank, call);
}

std::uint64_t MpiJob::Send(int rank, const MpiMessage& message) {
  if (message.peer == kNobody) return Put(rank, message, 0, 0, Function::MPI_Send);
  const reader::Communicator& entry = Entry(rank, message.comm);
  const auto peer = static_cast<std::uint32_t>(message.peer);
  std::uint32_t& sum = tags_[{rank, entry.index, peer}].sent;
  sum = format::AddTag(sum, message.tag);
  return Put(rank, message, Counts(rank, entry, peer).sends++, sum, Function::MPI_Send);
}

std::uint64_t MpiJob::Ssend(int rank, MpiMessage message) {
  message.function = Function::MPI_Ssend;
  message.flags |= format::kSynchronous;
  return Send(rank, message);
}

std::uint64_t MpiJob::Isend(int rank, MpiMessage message) {
  if (message.function == Function::kNone) message.function = Function::MPI_Isend;
  message.flags |= format::kRequest;
  const std::uint64_t slot = Send(rank, message);
  Return(rank, slot);
  return slot;
}

std::uint64_t MpiJob::Recv(int rank, const MpiMessage& message) {
  const std::uint64_t slot = Put(rank, message, format::kNotMatched, 0, Function::MPI_Recv);
  reader::Call& call = At(rank, slot);
  if (message.peer == kAny) call.flags |= format::kAnySource;
  if (message.tag == kAny) call.flags |= format::kAnyTag;
  return slot;
}

std::uint64_t MpiJob::Irecv(int rank, MpiMessage message) {
  if (message.function == Function::kNone) message.function = Function::MPI_Irecv;
  message.flags |= format::kRequest;
  const std::uint64_t slot = Recv(rank, message);
  Return(rank, slot);
  return slot;
}

std::uint64_t MpiJob::Probe(int rank, const MpiMessage& message) {
  const std::uint64_t slot = Recv(rank, message);
  reader::Call& call = At(rank, slot);
  if (!functions::IsProbe(call.function)) call.function = Function::MPI_Probe;
  call.position = 0;
  call.bytes = call.count = 0;
  return slot;
}

std::uint64_t MpiJob::Sendrecv(int rank, const MpiMessage& send, const MpiMessage& receive) {
  MpiMessage out = send, in = receive;
  out.function = in.function = Function::MPI_Sendrecv;
  const std::uint64_t first = Send(rank, out);
  const std::uint64_t second = Recv(rank, in);
  At(rank, first).group = At(rank, second).group = first + 1;
  return second;
}

namespace {

Spec OfInts(Function function, int root) {
  Spec spec;
  spec.function = function;
  spec.count = 1;
  spec.dtype = kMpiInt;
  spec.reduction = format::kNoReduction;
  spec.root = root;
  return spec;
}

}  // namespace

std::uint64_t MpiJob::Collective(int rank, Function function, int root, int comm) {
  const std::uint64_t slot = Enter(rank, comm, OfInts(function, root));
  At(rank, slot).bytes = 4;
  return slot;
}

void MpiJob::Tell(int rank, std::uint64_t slot, const std::vector<format::Part>& sends,
                  const std::vector<format::Part>& receives) {
  reader::Call& call = At(rank, slot);
  call.flags |= format::kHasParts;
  call.parts = parts_[rank];
  parts_[rank] += 1 + sends.size() + receives.size();
  Box(rank).parts.push_back({call, sends, receives});
}

std::uint64_t MpiJob::Amounts(int rank, Function function, const std::vector<format::Part>& sends,
                              const std::vector<format::Part>& receives, int root, int comm) {
  const std::uint64_t slot = Collective(rank, function, root, comm);
  Tell(rank, slot, sends, receives);
  return slot;
}

std::uint64_t MpiJob::StartAmounts(int rank, Function function, std::uint32_t number,
                                   const std::vector<format::Part>& sends, const std::vector<format::Part>& receives) {
  Spec spec = OfInts(function, format::kNoRank);
  spec.signature = number;
  const std::uint64_t slot = Enter(rank, kWorld, spec);
  At(rank, slot).flags |= format::kRequest | format::kPersisting;
  Tell(rank, slot, sends, receives);
  Return(rank, slot);
  return slot;
}

std::uint64_t MpiJob::Create(int rank, Function function, int parent) {
  reader::Communicator& entry = Entry(rank, parent);
  reader::Call call;
  call.function = function;
  call.communicator = entry.index;
  call.generation = entry.generation;
  call.position = entry.creations;
  call.count = entry.entered;
  call.chain = entry.chain;
  if (function != Function::MPI_Comm_create_group) ++entry.creations;
  return Append(rank, call);
}

std::uint64_t MpiJob::CreateGroup(int rank, const std::vector<int>& group, std::uint64_t id, int parent) {
  const std::uint64_t slot = Create(rank, Function::MPI_Comm_create_group, parent);
  std::vector<format::Part> members;
  for (const int member : group) members.push_back({static_cast<std::uint32_t>(member), format::kNoType, 0, 0});
  Tell(rank, slot, {}, members);
  reader::Communicator made = Entry(rank, parent);
  made.parent = made.id;
  made.parent_ordinal = made.creations;
  made.id = id;
  made.index = static_cast<std::uint32_t>(Box(rank).communicators.size());
  made.size = static_cast<std::uint32_t>(group.size());
  made.rank = static_cast<std::uint32_t>(std::find(group.begin(), group.end(), rank) - group.begin());
  made.entered = made.returned = made.creations = 0;
  made.created_ns = now_ns();
  made.state = format::CommunicatorState::kInitializing;
  Box(rank).communicators.push_back(made);
  return slot;
}

void MpiJob::Finalize(int rank) {
  reader::Call call;
  call.function = Function::MPI_Finalize;
  Append(rank, call);
}

std::uint64_t MpiJob::Wait(int rank, Function function, const std::vector<std::uint64_t>& requests) {
  reader::Call call;
  call.function = function;
  call.count = requests.size();
  if (function == Function::MPI_Waitany || function == Function::MPI_Waitsome) call.flags |= format::kAnyDoes;
  const std::uint64_t slot = Append(rank, call);
  for (const std::uint64_t request : requests) At(rank, request).waiter = slot + 1;
  return slot;
}

// The recorder keeps a few rows open; here only the last call can be one.
void MpiJob::Repeat(int rank, reader::Call poll) {
  std::vector<reader::Call>& calls = Box(rank).calls;
  if (calls.empty() || calls.back().function != poll.function || (calls.back().flags & format::kPolls) == 0) {
    poll.flags |= format::kPolls;
    poll.count = 0;
    Append(rank, poll);
  }
  ++calls.back().count;
  calls.back().completed_ns = now_ns();
}

void MpiJob::Poll(int rank, Function function, const std::vector<std::uint64_t>& requests) {
  reader::Call call;
  call.function = function;
  if (function == Function::MPI_Testany || function == Function::MPI_Testsome) call.flags |= format::kAnyDoes;
  Repeat(rank, call);
  const std::uint64_t slot = Box(rank).calls.back().slot;
  for (const std::uint64_t request : requests) At(rank, request).waiter = slot + 1;
}

void MpiJob::PollProbe(int rank, MpiMessage message) {
  const reader::Communicator& entry = Entry(rank, message.comm);
  reader::Call call;
  call.function = Function::MPI_Iprobe;
  call.communicator = entry.index;
  call.generation = entry.generation;
  call.root = message.peer;
  call.tag = message.tag;
  if (message.peer == kAny) call.flags |= format::kAnySource;
  if (message.tag == kAny) call.flags |= format::kAnyTag;
  Repeat(rank, call);
}

void MpiJob::Receipt(int rank, std::uint64_t slot, int source, int tag) {
  reader::BoxImage& box = Box(rank);
  reader::Communicator* entry = nullptr;
  for (reader::Communicator& known : box.communicators)
    if (known.index == At(rank, slot).communicator) entry = &known;
  const auto peer = static_cast<std::uint32_t>(source);
  std::uint32_t& sum = tags_[{rank, entry->index, peer}].received;
  sum = format::AddTag(sum, tag);
  reader::Call& call = At(rank, slot);
  call.root = source;
  call.tag = tag;
  call.chain = sum;
  call.position = Counts(rank, *entry, peer).receives++;
}

void MpiJob::Complete(int rank, std::uint64_t slot) { At(rank, slot).completed_ns = now_ns(); }

void MpiJob::Sent(int rank, const MpiMessage& message) { Return(rank, Send(rank, message)); }

void MpiJob::Received(int rank, const MpiMessage& message) {
  const std::uint64_t slot = Recv(rank, message);
  if (message.peer != kNobody) Receipt(rank, slot, message.peer, message.tag);
  Return(rank, slot);
}

void MpiJob::Forget(int rank, std::uint64_t before) {
  reader::BoxImage& box = Box(rank);
  std::erase_if(box.calls, [&](const reader::Call& call) { return call.slot < before; });
  std::erase_if(box.parts, [&](const reader::CallParts& parts) { return parts.call.slot < before; });
  box.first_slot = std::max(box.first_slot, before);
}

}  // namespace ncclwatch::testing
