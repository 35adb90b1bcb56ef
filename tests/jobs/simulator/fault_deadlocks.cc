// Deadlocks: each rank's calls are right by themselves, and so is the order on each communicator.
#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "tests/jobs/simulator/fault.h"

namespace ncclwatch::jobs {
namespace {

constexpr std::uint64_t kMany = 4'000'000;  // more than any buffer takes in
constexpr std::uint64_t kFew = 500;

// Of one of the functions that end nowhere before all have begun.
Op Everybodys(Draft* draft, int comm, std::uint64_t count, std::uint8_t stream = kCompute) {
  constexpr Function kFunctions[] = {Function::ncclAllReduce, Function::ncclAllGather, Function::ncclReduceScatter};
  const Function function = draft->dice.Of(kFunctions, 3);
  Ops ops;
  Writer(&ops).Collective(function, comm, count, kFloat32, stream,
                          function == Function::ncclAllGather ? format::kNoReduction : kSum);
  return Planted(ops.front());
}

Op Message(Function function, int comm, int peer, std::uint64_t count) {
  Ops ops;
  Writer(&ops).Message(function, comm, peer, count, kFloat32, kCompute);
  return Planted(ops.front());
}

Op Sync() { return {.what = Do::kSync, .stream = kCompute}; }
Op Wait(std::uint8_t stream, std::uint8_t other) { return {.what = Do::kWait, .stream = stream, .other = other}; }

// What every rank does at the beginning or the end of one step, by rank.
void AtStep(Draft* draft, const std::function<Ops(int)>& ops) {
  const int section = draft->AnyStep();
  const bool end = draft->dice.OneIn(2);
  for (int rank = 0; rank < draft->job().shape.ranks; ++rank) {
    Ops own = ops(rank);
    const int index = end ? static_cast<int>(draft->job().PlainSection(rank, section).size()) : 0;
    if (!own.empty()) draft->Change(rank, {.section = section, .index = index, .ops = std::move(own)});
  }
  draft->look = Look::kAfterStall;
}

// Whoever waits in the cycle, with `include` in it.
void Cycle(Draft* draft, std::vector<int> include, const std::string& story) {
  draft->cycle = true;
  draft->truth().answers = {{"deadlock", std::move(include), {}, true, 2}};
  draft->truth().story = story;
}

bool Contains(const Comm& comm, int rank) { return comm.RankOf(rank) >= 0; }

// Two communicators that the rank and at least one other are in both; one is added where there are none.
std::pair<int, int> TwoShared(Draft* draft, int rank) {
  Job& job = draft->job();
  std::vector<std::pair<int, int>> shared;
  const std::vector<int>& own = job.comms_of[static_cast<std::size_t>(rank)];
  for (const int one : own)
    for (const int other : own) {
      const auto both = std::count_if(job.comms[static_cast<std::size_t>(one)].members.begin(),
                                      job.comms[static_cast<std::size_t>(one)].members.end(),
                                      [&](int member) { return Contains(draft->CommAt(other), member); });
      if (one != other && both >= 2) shared.push_back({one, other});
    }
  if (!shared.empty()) return draft->dice.Of(shared.data(), shared.size());
  std::vector<int> members;
  for (int i = 0; i < 4; ++i) members.push_back(rank / 4 * 4 + i);
  return {job.Add({.members = members, .label = "side"}), 0};
}

using MakeOps = std::function<Ops(const Op& first, const Op& second, bool odd)>;

// All make a call on the one communicator, then one on the other; one rank the other way round.
void Cross(Draft* draft, const std::string& how, const MakeOps& make, std::uint8_t second_stream = kCompute) {
  const int rank = draft->AnyRank();
  const auto [one, other] = TwoShared(draft, rank);
  const Comm first = draft->CommAt(one), second = draft->CommAt(other);
  const Op on_first = Everybodys(draft, one, 11), on_second = Everybodys(draft, other, 13, second_stream);
  AtStep(draft, [&](int member) {
    const bool in_first = Contains(first, member), in_second = Contains(second, member);
    if (member == rank) return make(on_second, on_first, true);
    if (in_first && in_second) return make(on_first, on_second, false);
    if (in_first) return Ops{on_first};
    return in_second ? Ops{on_second} : Ops{};
  });
  Cycle(draft, {rank}, fmt::format("rank {} makes calls on two communicators in the other order{}", rank, how));
}

bool OppositeOrder(Draft* draft) {
  Cross(draft, "", [](const Op& first, const Op& second, bool) { return Ops{first, second}; });
  return true;
}

// The hosts wait between the two: the second calls are not made.
bool OppositeOrderOfHosts(Draft* draft) {
  Cross(draft, ", waiting between", [](const Op& first, const Op& second, bool) { return Ops{first, Sync(), second}; });
  draft->truth().may_be_certain = false;
  return true;
}

// On two streams, of which the later waits for the earlier by an event: nobody sees the event.
bool OppositeOrderOverStreams(Draft* draft) {
  Cross(
      draft, ", on streams that wait for one another",
      [](const Op& first, const Op& second, bool) {
        return Ops{first, Wait(second.stream, first.stream), second};
      },
      kAside);
  draft->truth().may_be_certain = false;
  return true;
}

// On two streams that have nothing to do with one another: both run.
bool IndependentStreams(Draft* draft) {
  Cross(
      draft, "",
      [](const Op& first, const Op& second, bool) {
        return Ops{first, second};
      },
      kAside);
  draft->truth().story += ", on streams of their own: NCCL gets through";
  draft->look = Look::kAnytime;
  return true;
}

// In a group NCCL launches communicator by communicator, in an order that the program does not see.
bool GroupAgainstSingle(Draft* draft) {
  Cross(draft, ", within a group", [](const Op& first, const Op& second, bool odd) {
    if (!odd) return Ops{first, second};
    return Ops{{.what = Do::kGroupStart}, second, first, {.what = Do::kGroupEnd}};
  });
  draft->truth().may_be_certain = false;
  return true;
}

// All exchange with both neighbours in one group, then a collective; one rank makes it between two halves of the group.
bool GroupAgainstPartial(Draft* draft) {
  const int odd = draft->AnyRank();
  const std::vector<int> own = draft->job().comms_of[static_cast<std::size_t>(odd)];
  const int comm = draft->dice.Of(own.data(), own.size());
  const Comm members = draft->CommAt(comm);
  if (members.size() < 3) return false;
  const std::uint64_t count = draft->dice.OneIn(2) ? kMany : kFew;
  const Op together = Everybodys(draft, comm, 17);
  const Op begin = {.what = Do::kGroupStart}, end = {.what = Do::kGroupEnd};
  AtStep(draft, [&](int rank) {
    const int place = members.RankOf(rank), right = (place + 1) % members.size(),
              left = (place + members.size() - 1) % members.size();
    if (place < 0) return Ops{};
    const Op to_right = Message(Function::ncclSend, comm, right, count);
    const Op from_left = Message(Function::ncclRecv, comm, left, count);
    const Op to_left = Message(Function::ncclSend, comm, left, count);
    const Op from_right = Message(Function::ncclRecv, comm, right, count);
    if (rank != odd) return Ops{begin, to_right, from_left, to_left, from_right, end, together};
    return Ops{begin, to_right, from_left, end, together, begin, to_left, from_right, end};
  });
  Cycle(draft, {odd}, fmt::format("rank {} makes a collective between the halves of a group", odd));
  return true;
}

bool CycleOfThree(Draft* draft) {
  Job& job = draft->job();
  const bool hosts_wait = draft->dice.OneIn(3);
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
  AtStep(draft, [&](int rank) {
    for (std::size_t i = 0; i < 3; ++i) {
      if (three[i] != rank) continue;
      Op first = Everybodys(draft, pairs[i], 100), second = Everybodys(draft, pairs[(i + 2) % 3], 100);
      first.function = second.function = Function::ncclAllReduce;
      first.reduction = second.reduction = kSum;
      return hosts_wait ? Ops{first, Sync(), second} : Ops{first, second};
    }
    return Ops{};
  });
  Cycle(draft, three, "three ranks wait for one another on three communicators");
  draft->truth().may_be_certain = !hosts_wait;
  return true;
}

// Rows and columns, as of tensor and data parallel groups: each of the four corners waits for the next.
bool CycleOfFour(Draft* draft) {
  Job& job = draft->job();
  const int corner = draft->AnyRank();
  const std::vector<int>& own = job.comms_of[static_cast<std::size_t>(corner)];
  for (const int row : own)
    for (const int column : own)
      for (const int right : draft->CommAt(row).members)
        for (const int below : draft->CommAt(column).members) {
          if (right == corner || below == corner || row == column) continue;
          const int right_column = job.CommOf(right, draft->CommAt(column).label),
                    below_row = job.CommOf(below, draft->CommAt(row).label);
          if (right_column < 0 || below_row < 0 || right_column == column || below_row == row) continue;
          int opposite = -1;
          for (const int member : draft->CommAt(right_column).members)
            if (Contains(draft->CommAt(below_row), member)) opposite = member;
          if (opposite < 0) continue;
          AtStep(draft, [&, all = std::set<int>{row, column, right_column, below_row}](int rank) {
            const auto call = [&](int comm) {
              Ops ops;
              Writer(&ops).AllReduce(comm, 19, kFloat32, kCompute);
              return Planted(ops.front());
            };
            if (rank == corner) return Ops{call(row), call(column)};
            if (rank == right) return Ops{call(right_column), call(row)};
            if (rank == opposite) return Ops{call(below_row), call(right_column)};
            if (rank == below) return Ops{call(column), call(below_row)};
            Ops ops;
            for (const int comm : all)
              if (Contains(draft->CommAt(comm), rank)) ops.push_back(call(comm));
            return ops;
          });
          Cycle(draft, {corner, right, opposite, below},
                "four ranks wait for one another over rows and columns of communicators");
          return true;
        }
  return false;
}

int Partner(Draft* draft, const Comm& comm, int rank) {
  int partner = rank;
  while (partner == rank) partner = draft->dice.Of(comm.members.data(), comm.members.size());
  return partner;
}

// One sends after a collective of both, the other receives before it.
bool CollectiveAgainstMessage(Draft* draft) {
  const int sender = draft->AnyRank();
  const std::vector<int> own = draft->job().comms_of[static_cast<std::size_t>(sender)];
  const int comm = draft->dice.Of(own.data(), own.size());
  const Comm members = draft->CommAt(comm);
  const int receiver = Partner(draft, members, sender);
  const bool hosts_wait = draft->dice.OneIn(2);
  const std::uint64_t count = draft->dice.OneIn(2) ? kMany : kFew;
  const Op together = Everybodys(draft, comm, 23);
  AtStep(draft, [&](int rank) {
    if (!Contains(members, rank)) return Ops{};
    const Op send = Message(Function::ncclSend, comm, members.RankOf(receiver), count);
    const Op receive = Message(Function::ncclRecv, comm, members.RankOf(sender), count);
    if (rank == sender) return hosts_wait ? Ops{together, Sync(), send} : Ops{together, send};
    if (rank == receiver) return hosts_wait ? Ops{receive, Sync(), together} : Ops{receive, together};
    return Ops{together};
  });
  Cycle(draft, {sender, receiver}, "a receive waits before a collective, its send after it");
  draft->truth().may_be_certain = !hosts_wait;
  return true;
}

// Both send before they receive, and not in a group: buffers may get them over it.
bool SendsToOneAnother(Draft* draft) {
  const int one = draft->AnyRank();
  const std::vector<int> own = draft->job().comms_of[static_cast<std::size_t>(one)];
  const int comm = draft->dice.Of(own.data(), own.size());
  const Comm members = draft->CommAt(comm);
  const int other = Partner(draft, members, one);
  const std::uint64_t count = draft->dice.OneIn(3) ? kFew : kMany;
  AtStep(draft, [&](int rank) {
    if (rank != one && rank != other) return Ops{};
    const int peer = members.RankOf(rank == one ? other : one);
    return Ops{Message(Function::ncclSend, comm, peer, count), Message(Function::ncclRecv, comm, peer, count)};
  });
  Cycle(draft, {one, other}, "two ranks send to one another before they receive");
  draft->truth().may_be_certain = false;
  return true;
}

}  // namespace

const std::vector<Fault> kDeadlockFaults = {
    {"opposite_order", OppositeOrder},
    {"opposite_order_of_hosts", OppositeOrderOfHosts},
    {"opposite_order_over_streams", OppositeOrderOverStreams},
    {"independent_streams", IndependentStreams},
    {"group_against_single", GroupAgainstSingle},
    {"group_against_partial", GroupAgainstPartial},
    {"cycle_of_three", CycleOfThree},
    {"cycle_of_four", CycleOfFour},
    {"collective_against_message", CollectiveAgainstMessage},
    {"sends_to_one_another", SendsToOneAnother},
};

}  // namespace ncclwatch::jobs
