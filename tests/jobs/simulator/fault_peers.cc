// Faults of one message of one rank: its peer, size, communicator or number.
#include <fmt/core.h>

#include <algorithm>

#include "tests/jobs/simulator/fault.h"

namespace ncclwatch::jobs {
namespace {

// A message to or from another rank, in one step of one rank.
std::optional<Spot> MessageOf(Draft* draft, bool sends_only = false) {
  const int step = draft->AnyStep();
  for (int tries = 0; tries < 60; ++tries) {
    const int rank = draft->AnyRank();
    const Ops ops = draft->job().PlainSection(rank, step);
    std::vector<int> fitting;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      const bool wanted = IsMessage(ops[i]) && (!sends_only || ops[i].function == Function::ncclSend);
      if (wanted && ops[i].root != rank && ops[i].count != 777) fitting.push_back(static_cast<int>(i));
    }
    if (fitting.empty()) continue;
    const int index = fitting[static_cast<std::size_t>(draft->dice.Below(static_cast<int>(fitting.size())))];
    return Spot{rank, step, index, ops[static_cast<std::size_t>(index)]};
  }
  return std::nullopt;
}

bool Replace(Draft* draft, const Spot& spot, Ops ops, const std::string& story) {
  draft->Change(spot.rank,
                {.how = Edit::How::kReplace, .section = spot.section, .index = spot.index, .ops = std::move(ops)});
  draft->look = Look::kAfterStall;
  draft->truth().answers = {Exactly("point_to_point_mismatch", {spot.rank})};
  draft->truth().story = fmt::format("rank {} {} in step {}", spot.rank, story, spot.section);
  return true;
}

bool WrongPeer(Draft* draft) {
  const std::optional<Spot> spot = MessageOf(draft, !draft->dice.OneIn(4));
  if (!spot) return false;
  Op wrong = Planted(spot->op);
  while (wrong.root == spot->op.root || wrong.root == spot->rank) wrong.root = draft->AnyRank();
  return Replace(draft, *spot, {wrong}, fmt::format("has peer {} instead of {}", wrong.root, spot->op.root));
}

// What was for one goes to the other, and the other way round. It can be seen where sizes differ, or one comes first.
bool SwappedSends(Draft* draft) {
  for (int tries = 0; tries < 60; ++tries) {
    const std::optional<Spot> one = MessageOf(draft, true);
    if (!one) return false;
    const Ops ops = draft->job().PlainSection(one->rank, one->section);
    std::vector<int> fitting;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      const Op& op = ops[i];
      if (IsMessage(op) && op.function == Function::ncclSend && op.root != one->rank && op.root != one->op.root &&
          op.count != one->op.count && op.count != 777)
        fitting.push_back(static_cast<int>(i));
    }
    if (fitting.empty()) continue;
    const int index = fitting[static_cast<std::size_t>(draft->dice.Below(static_cast<int>(fitting.size())))];
    Op first = Planted(one->op), second = Planted(ops[static_cast<std::size_t>(index)]);
    std::swap(first.root, second.root);
    draft->Change(one->rank, {.how = Edit::How::kReplace, .section = one->section, .index = index, .ops = {second}});
    return Replace(draft, *one, {first}, fmt::format("exchanges its sends to {} and {}", first.root, second.root));
  }
  return false;
}

bool WrongSize(Draft* draft) {
  const std::optional<Spot> spot = MessageOf(draft);
  if (!spot) return false;
  Op wrong = Planted(spot->op);
  constexpr int kBy[] = {-64, -1, 1, 64, 1000};
  wrong.count = static_cast<std::uint64_t>(static_cast<int>(wrong.count) + draft->dice.Of(kBy, std::size(kBy)));
  return Replace(draft, *spot, {wrong}, fmt::format("has {} elements instead of {}", wrong.count, spot->op.count));
}

bool WrongCommunicator(Draft* draft) {
  const std::optional<Spot> spot = MessageOf(draft);
  if (!spot) return false;
  Op wrong = Planted(spot->op);
  wrong.comm = 0;
  return Replace(draft, *spot, {wrong}, "uses another communicator");
}

bool OneMore(Draft* draft) {
  const std::optional<Spot> spot = MessageOf(draft);
  if (!spot) return false;
  return Replace(draft, *spot, {spot->op, Planted(spot->op)}, fmt::format("has one more with {}", spot->op.root));
}

bool OneLess(Draft* draft) {
  const std::optional<Spot> spot = MessageOf(draft);
  if (!spot) return false;
  return Replace(draft, *spot, {Nothing()}, fmt::format("has one less with {}", spot->op.root));
}

}  // namespace

const std::vector<Fault> kPeerFaults = {
    {"message_wrong_peer", WrongPeer}, {"message_swapped_sends", SwappedSends},
    {"message_wrong_size", WrongSize}, {"message_wrong_communicator", WrongCommunicator},
    {"message_one_more", OneMore},     {"message_one_less", OneLess},
};

const std::vector<std::string>& PeerFaultNames() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Fault& fault : kPeerFaults) all.emplace_back(fault.name);
    return all;
  }();
  return names;
}

}  // namespace ncclwatch::jobs
