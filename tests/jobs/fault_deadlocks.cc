// Deadlocks: each rank's calls are right by themselves, and so is the order on each communicator.
#include <algorithm>

#include "tests/jobs/fault.h"

namespace ncclwatch::jobs {
namespace {

Op Reduce(int comm, std::uint64_t count) {
  Ops ops;
  Writer(&ops).AllReduce(comm, count, kFloat32, kCompute);
  return Planted(ops.front());
}

Op Message(Function function, int comm, int peer, std::uint64_t count) {
  Ops ops;
  Writer(&ops).Message(function, comm, peer, count, kFloat32, kCompute);
  return Planted(ops.front());
}

Op Sync() { return {.what = Do::kSync, .stream = kCompute}; }

// What every rank does at the beginning of one step, by rank.
void AtStep(Draft* draft, int section, const std::function<Ops(int)>& ops) {
  for (int rank = 0; rank < draft->job().shape.ranks; ++rank) {
    Ops own = ops(rank);
    if (!own.empty()) draft->Change(rank, {.section = section, .index = 0, .ops = std::move(own)});
  }
  draft->look = Look::kAfterStall;
}

// A communicator of the rank beside the world's: the topology's, or one that is added for it.
int SmallComm(Draft* draft, int rank) {
  Job& job = draft->job();
  if (job.comms_of[static_cast<std::size_t>(rank)].size() < 2) {
    std::vector<int> members;
    for (int i = 0; i < 4; ++i) members.push_back(rank / 4 * 4 + i);
    return job.Add({.members = members, .label = "side"});
  }
  return job.comms_of[static_cast<std::size_t>(rank)][1];
}

struct Crossed {
  int rank, small;
};

// All make a call on the small communicator, then one on the world's; one rank the other way round.
Crossed Cross(Draft* draft, const std::function<Ops(const Op& first, const Op& second, bool odd)>& make) {
  const int rank = draft->AnyRank();
  const int small = SmallComm(draft, rank);
  const Comm members = draft->CommAt(small);
  AtStep(draft, draft->AnyStep(), [&](int other) {
    const Op on_small = Reduce(small, 11), on_world = Reduce(0, 13);
    if (other == rank) return make(on_world, on_small, true);
    return members.RankOf(other) >= 0 ? make(on_small, on_world, false) : Ops{on_world};
  });
  draft->truth().answers = {{"deadlock", {rank}, members.members}};
  draft->truth().story = "rank " + std::to_string(rank) + " makes calls on two communicators in the other order";
  return {rank, small};
}

bool OppositeOrder(Draft* draft) {
  Cross(draft, [](const Op& first, const Op& second, bool) { return Ops{first, second}; });
  return true;
}

// The hosts wait between the two: the second calls are not made.
bool OppositeOrderOfHosts(Draft* draft) {
  Cross(draft, [](const Op& first, const Op& second, bool) { return Ops{first, Sync(), second}; });
  draft->truth().may_be_certain = false;
  return true;
}

// In a group NCCL launches communicator by communicator, in an order that the program does not see.
bool GroupAgainstSingle(Draft* draft) {
  Cross(draft, [](const Op& first, const Op& second, bool odd) {
    if (!odd) return Ops{first, second};
    return Ops{{.what = Do::kGroupStart}, second, first, {.what = Do::kGroupEnd}};
  });
  draft->truth().may_be_certain = false;
  draft->truth().story += ", within a group";
  return true;
}

bool CycleOfThree(Draft* draft) {
  Job& job = draft->job();
  std::vector<int> three;
  while (three.size() < 3) {
    const int rank = draft->AnyRank();
    if (std::find(three.begin(), three.end(), rank) == three.end()) three.push_back(rank);
  }
  int pairs[3];
  for (std::size_t i = 0; i < 3; ++i) {
    std::vector<int> pair = {three[i], three[(i + 1) % 3]};
    std::sort(pair.begin(), pair.end());
    pairs[i] = job.Add({.members = pair, .label = "pair"});
  }
  AtStep(draft, draft->AnyStep(), [&](int rank) {
    for (std::size_t i = 0; i < 3; ++i)
      if (three[i] == rank) return Ops{Reduce(pairs[i], 100), Reduce(pairs[(i + 2) % 3], 100)};
    return Ops{};
  });
  draft->truth().answers = {Exactly("deadlock", three)};
  draft->truth().story = "three ranks wait for one another on three communicators";
  return true;
}

int Partner(Draft* draft, int rank) {
  int partner = rank;
  while (partner == rank) partner = draft->AnyRank();
  return partner;
}

// One sends after a collective of both, the other receives before it.
bool CollectiveAgainstMessage(Draft* draft) {
  const int sender = draft->AnyRank(), receiver = Partner(draft, sender);
  const bool hosts_wait = draft->dice.OneIn(2);
  AtStep(draft, draft->AnyStep(), [&](int rank) {
    Ops ops = {Reduce(0, 13)};
    const Op send = Message(Function::ncclSend, 0, receiver, 500000);
    const Op receive = Message(Function::ncclRecv, 0, sender, 500000);
    if (rank == sender) ops = hosts_wait ? Ops{ops.front(), Sync(), send} : Ops{ops.front(), send};
    if (rank == receiver) ops = hosts_wait ? Ops{receive, Sync(), ops.front()} : Ops{receive, ops.front()};
    return ops;
  });
  std::vector<int> both = {sender, receiver};
  draft->truth().answers = {Exactly("deadlock", both)};
  draft->truth().story = "a receive waits before a collective, its send after it";
  if (!hosts_wait) return true;
  // Whether the send would have come nobody can see.
  draft->truth().answers.push_back({"point_to_point_mismatch", {}, both});
  draft->truth().may_be_certain = false;
  return true;
}

// Both send before they receive, and not in a group.
bool SendsToOneAnother(Draft* draft) {
  const int one = draft->AnyRank(), other = Partner(draft, one);
  AtStep(draft, draft->AnyStep(), [&](int rank) {
    if (rank != one && rank != other) return Ops{};
    const int peer = rank == one ? other : one;
    return Ops{Message(Function::ncclSend, 0, peer, 500000), Message(Function::ncclRecv, 0, peer, 500000)};
  });
  draft->truth().answers = {Exactly("deadlock", {one, other})};
  draft->truth().story = "two ranks send to one another before they receive";
  return true;
}

}  // namespace

const std::vector<Fault> kDeadlockFaults = {
    {"opposite_order", OppositeOrder},
    {"opposite_order_of_hosts", OppositeOrderOfHosts},
    {"group_against_single", GroupAgainstSingle},
    {"cycle_of_three", CycleOfThree},
    {"collective_against_message", CollectiveAgainstMessage},
    {"sends_to_one_another", SendsToOneAnother},
};

}  // namespace ncclwatch::jobs
