#include "core/steps/step_follower.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/reader/load.h"
#include "core/steps/bursts.h"
#include "core/steps/period.h"
#include "core/steps/steps.h"

namespace ncclwatch::diagnosis {
namespace {

using reader::Call;
using reader::Load;
using reader::MappedBox;

struct Calls {
  std::vector<Call> calls;
  std::vector<std::uint64_t> ids;  // of their communicators
};

Calls NewestCalls(const MappedBox& box, std::uint64_t most) {
  Calls all;
  const std::uint64_t head = box.head();
  Call call;
  for (std::uint64_t slot = head - std::min({head, most, box.ring_size()}); slot < head; ++slot) {
    if (!box.Read(slot, &call) || IsError(call)) continue;
    if (!IsMessage(call) && !functions::IsCollective(call.function)) continue;
    const std::uint64_t id = IdentityOf(box, call.communicator, call.generation);
    if (id == 0) continue;
    all.calls.push_back(call);
    all.ids.push_back(id);
  }
  return all;
}

// Steps of several equal calls.
void JoinBursts(const Calls& all, Loop* loop) {
  std::vector<CallTime> times;
  for (std::size_t i = 0; i < all.calls.size(); ++i)
    if (all.ids[i] == loop->communicator && !IsMessage(all.calls[i]))
      times.push_back({all.calls[i].position, all.calls[i].entered_ns});
  const Burst burst = FindBurst(times);
  loop->each = burst.calls;
  loop->first = burst.first;
}

std::vector<std::int64_t> TimesOf(const Calls& all) {
  std::vector<std::int64_t> times;
  for (const Call& call : all.calls) times.push_back(call.entered_ns);
  return times;
}

// Nearly all calls of the block are one and the same.
bool IsMostlyOneCall(const std::vector<Symbol>& symbols, const Period& period) {
  constexpr std::size_t kFewest = 16;
  constexpr double kMost = 0.9;
  std::unordered_map<std::uint64_t, std::size_t> counts;
  std::size_t most = 0;
  for (std::size_t i = period.block; i < period.block + period.length; ++i)
    most = std::max(most, ++counts[symbols[i].call]);
  return period.length >= kFewest && static_cast<double>(most) >= kMost * static_cast<double>(period.length);
}

// Of the block the collectives that count a step, on the communicator that all ranks choose alike.
std::optional<Loop> LoopOf(const MappedBox& box, const Calls& all, const Period& period, bool sure) {
  struct Counted {
    std::uint32_t size = 0;
    std::uint64_t each = 0;
  };
  std::unordered_map<std::uint64_t, Counted> counts;
  for (std::size_t i = period.block; i < period.block + period.length; ++i) {
    const Call& call = all.calls[i];
    if (IsMessage(call) || (call.flags & (format::kEmpty | format::kOneRank)) != 0) continue;
    Counted& counted = counts[all.ids[i]];
    counted.size = Load(box.communicator(call.communicator).size);
    ++counted.each;
  }
  std::optional<Loop> loop;
  std::tuple<std::uint32_t, std::uint64_t, std::uint64_t> best;
  for (const auto& [id, counted] : counts) {
    const auto key = std::make_tuple(counted.size, counted.each, id);
    if (loop && key <= best) continue;
    best = key;
    loop = Loop{id, counted.size, counted.each, sure};
  }
  return loop;
}

// On the largest communicator on which ranks meet often, which all of them choose alike.
std::optional<Loop> StretchesOf(const MappedBox& box, const Calls& all) {
  constexpr std::size_t kFewestMeetings = 64;
  std::unordered_map<std::uint64_t, std::pair<std::uint32_t, std::size_t>> meetings;  // size and number, by identity
  for (std::size_t i = 0; i < all.calls.size(); ++i) {
    const Call& call = all.calls[i];
    if (IsMessage(call) || (call.flags & (format::kEmpty | format::kOneRank)) != 0) continue;
    auto& [size, count] = meetings[all.ids[i]];
    size = Load(box.communicator(call.communicator).size);
    ++count;
  }
  std::optional<Loop> loop;
  for (const auto& [id, meeting] : meetings) {
    const auto& [size, count] = meeting;
    if (size < 2 || count < kFewestMeetings) continue;
    if (!loop || std::tie(size, id) > std::tie(loop->size, loop->communicator))
      loop = Loop{.communicator = id, .size = size, .each = kStretch, .stretches = true};
  }
  return loop;
}

using functions::Family;

constexpr std::uint64_t kFewestForStretches = 4096;  // records: a loop may still begin
constexpr std::int64_t kSettle_ns = 1'000'000'000;   // until then a call has returned, and its kernel has been timed
constexpr std::uint64_t kBlockedThread = 1024;       // records since a call that has not returned: others go on
constexpr std::size_t kMostChannels = 64;            // half of them of messages
constexpr std::size_t kMostUntaken = 256;            // steps

std::uint32_t Units(std::int64_t ns) {
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(ns / kReportedUnit_ns, 0, kMostUnits));
}
std::uint32_t UnitsPlusOne(std::int64_t ns) { return ns < 0 ? 0 : std::min(Units(ns), kMostUnits - 1) + 1; }

}  // namespace

std::uint64_t IdentityOf(const MappedBox& box, std::uint32_t index, std::uint32_t generation) {
  if (index >= box.communicators()) return 0;
  const format::Communicator& entry = box.communicator(index);
  const bool known = (Load(entry.flags) & (format::kCommIdentityUnknown | format::kCommGrown)) == 0;
  return known && Load(entry.generation) == generation ? Load(entry.id) : 0;
}

std::optional<Loop> FindLoop(const MappedBox& box, std::uint64_t most) {
  const Calls all = NewestCalls(box, most);
  for (const Layers layers : {Layers::kAreNoSteps, Layers::kMayBeSteps}) {
    for (const bool counts : {true, false}) {
      std::vector<Symbol> symbols;
      for (std::size_t i = 0; i < all.calls.size(); ++i) symbols.push_back(SymbolOf(all.calls[i], all.ids[i], counts));
      const std::optional<Period> period = FindPeriod(symbols, layers);
      // One function called over and over with whatever sizes: its calls need not be steps.
      const bool sure = layers == Layers::kAreNoSteps && (counts || (period && period->length > 1));
      if (!period) continue;
      std::optional<Loop> loop = LoopOf(box, all, *period, sure);
      if (loop && period->length == 1) JoinBursts(all, &*loop);
      const bool undecided = period->length == 1 ? loop && loop->each == 1 : IsMostlyOneCall(symbols, *period);
      if (loop && undecided)
        if (const std::uint64_t calls = CallsOfABurst(TimesOf(all)); calls > 0) loop->each = calls;
      return loop;
    }
  }
  return box.head() < kFewestForStretches ? std::nullopt : StretchesOf(box, all);
}

void StepFollower::Follow(const Loop& loop) {
  // A call more now and then (a barrier after each checkpoint) moves the place in the loop at which its steps are cut:
  // that is the same loop.
  const bool same = loop_ && loop_->communicator == loop.communicator && loop_->each == loop.each;
  odd_ = 0;
  if (same) {
    loop_->sure = loop.sure;
    return;
  }
  loop_ = loop;
  open_ = telling_ = false;
  every_ = 1;
  usual_ns_ = 0;
  reported_.steps.clear();
  for (Channel& channel : channels_) channel.usual = 0;
}

bool StepFollower::IsSettled(const Call& call, std::uint64_t behind, std::int64_t now_ns) const {
  if (behind > box_.ring_size() / 2) return true;  // or it is overwritten
  if (now_ns - call.entered_ns < kSettle_ns) return false;
  return call.returned_ns != 0 || behind > kBlockedThread;
}

std::size_t StepFollower::Poll(std::int64_t now_ns, std::size_t most) {
  const std::uint64_t head = box_.head(), ring = box_.ring_size();
  if (!loop_ || cursor_ >= head) return 0;
  if (head - cursor_ > ring / 4 * 3) {  // overtaken, or just begun
    cursor_ = head - std::min(head, ring / 2);
    open_ = telling_ = false;
  }
  std::size_t read = 0;
  Call call;
  while (cursor_ < head && read < most) {
    ++read;
    const std::uint64_t slot = cursor_;
    const bool whole = box_.Read(slot, &call);
    if (!whole && head - slot <= reader::kUnwrittenTail) break;
    if (whole && !IsSettled(call, head - slot, now_ns)) break;
    ++cursor_;
    if (whole)
      See(call);
    else
      open_ = telling_ = false;
  }
  return read;
}

void StepFollower::See(const Call& call) {
  if (IsError(call)) return;
  if (functions::IsCollective(call.function)) return SeeCollective(call);
  if (!telling_) return;
  if (IsMessage(call)) return SeeMessage(call);
  const functions::FunctionInfo* const info = functions::Find(call.function);
  const bool waits = info && (info->family == Family::kCompletion || info->family == Family::kProbe);
  if (waits && Blocks(call)) step_.message_ns += InsideNs(call);
}

void StepFollower::SeeCollective(const Call& call) {
  const std::size_t index = ChannelOf({call.communicator, call.generation, -1, false});
  if (index >= channels_.size()) return;
  const bool counts = (call.flags & (format::kEmpty | format::kOneRank)) == 0;
  const bool of_loop = counts && channels_[index].id == loop_->communicator && call.position >= loop_->first;
  if (of_loop && (call.position - loop_->first) % loop_->each == 0) Cut(call);
  Channel& channel = channels_[index];
  if (!telling_ || !channel.compared || MeetsNobody(call)) return;
  if (Blocks(call)) step_.exposed_ns += InsideNs(call);
  const auto each = static_cast<std::uint32_t>((channel.usual + kMostArrivalsOfAChannel - 1) / kMostArrivalsOfAChannel);
  AddArrival(call, std::max<std::uint32_t>(1, each), &channel);
}

void StepFollower::SeeMessage(const Call& call) {
  if (Blocks(call)) step_.message_ns += InsideNs(call);
  AddUnit(messages_.Add(call, 0, call.root < 0 ? SIZE_MAX : PeerOf(call)));
  if (call.root < 0 || functions::IsMpi(call.function)) return;
  const bool sends = call.function == functions::Function::ncclSend;
  const std::size_t index = ChannelOf({call.communicator, call.generation, call.root, sends});
  // Of messages the last one of the step: their times are told, and nobody is late for them.
  if (index < channels_.size()) AddArrival(call, UINT32_MAX, &channels_[index]);
}

// SIZE_MAX: there are more than are told.
std::size_t StepFollower::PeerOf(const Call& call) {
  const ReportedPeer peer{call.communicator, call.generation, call.root};
  std::vector<ReportedPeer>& peers = reported_.peers;
  const auto known = std::find(peers.begin(), peers.end(), peer);
  if (known != peers.end()) return static_cast<std::size_t>(known - peers.begin());
  reported_.many_peers = reported_.many_peers || peers.size() == kMostPeers;
  if (reported_.many_peers) return SIZE_MAX;
  peers.push_back(peer);
  return peers.size() - 1;
}

void StepFollower::AddUnit(const MessageUnit& unit) {
  if (unit.id == 0 || unit.is_exchange()) return;
  StepMessageSum& sum = step_.messages;
  if (sum.kernels.size() < kMostSizes || sum.kernels.contains(unit.bytes)) sum.Add(unit);
}

// A step begins with this call, and what was open ends.
void StepFollower::Cut(const Call& call) {
  const std::uint64_t number = (call.position - loop_->first) / loop_->each;
  if (open_ && number == step_.number) return;  // refused, and made again at the same position
  const bool whole = telling_ && number == step_.number + 1;
  AddUnit(messages_.End());
  if (whole) Close(call);
  open_ = true;
  telling_ = IsTold(number);
  step_ = {};
  step_.number = number;
  step_.began_ns = call.entered_ns;
  open_arrivals_.clear();
  for (Channel& channel : channels_) {
    channel.calls = channel.to_come = 0;
    channel.arrivals = 0;
  }
  const std::uint64_t length = call.slot - began_slot_;
  began_slot_ = call.slot;
  if (!whole || telling_ || every_ == 1) return;
  std::uint64_t next = number + 1;
  while (!IsTold(next)) ++next;
  // Steps are of about this length.
  cursor_ = std::max(cursor_, call.slot + (next - number) * length - length / 2);
  open_ = false;
}

bool StepFollower::IsUneven(const Channel& channel) const {
  return channel.reported.peer < 0 && channel.calls != channel.usual &&
         std::max(channel.calls, channel.usual) > kMostArrivalsOfAChannel;
}

void StepFollower::Close(const Call& next) {
  step_.duration_ns = next.entered_ns - step_.began_ns;
  bool odd = false;
  for (const OpenArrival& open : open_arrivals_) {
    if (IsUneven(channels_[open.channel])) continue;  // others may have summed other calls
    const std::uint16_t kind = KindOf(open.kind);
    if (kind == kMostKinds) continue;
    step_.arrivals.push_back({.position = open.position,
                              .entered = Units(open.entered_ns - step_.began_ns),
                              .inside = UnitsPlusOne(open.inside_ns),
                              .kernel = UnitsPlusOne(open.kernel_ns),
                              .kind = kind});
  }
  for (Channel& channel : channels_) {
    odd = odd || (channel.reported.peer < 0 && channel.calls != channel.usual);
    channel.usual = channel.calls;
  }
  odd_ = odd ? odd_ + 1 : std::max(0, odd_ - 1);
  SpaceOut(step_.duration_ns);
  reported_.steps.push_back(std::move(step_));
  if (reported_.steps.size() > kMostUntaken) reported_.steps.erase(reported_.steps.begin());
}

// Ranks choose alike, as their steps are about as long: who has once doubled does not go back for a little.
void StepFollower::SpaceOut(std::int64_t duration_ns) {
  usual_ns_ = usual_ns_ == 0 ? duration_ns : usual_ns_ + (duration_ns - usual_ns_) / 8;
  const auto apart = [&] { return static_cast<std::int64_t>(every_) * usual_ns_; };
  constexpr std::uint64_t kMostEvery = 1u << 20;
  while (apart() < apart_ns_ && every_ < kMostEvery) every_ *= 2;
  while (every_ > 1 && apart() > 4 * apart_ns_) every_ /= 2;
}

void StepFollower::AddArrival(const Call& call, std::uint32_t each, Channel* channel) {
  ++channel->calls;
  const bool room = channel->arrivals < kMostArrivalsOfAChannel && open_arrivals_.size() < kMostArrivals;
  if (channel->arrivals == 0 && !room) return;
  if (channel->to_come == 0 && room) {
    channel->to_come = each;
    channel->arrival = open_arrivals_.size();
    ++channel->arrivals;
    OpenArrival& fresh = open_arrivals_.emplace_back();
    fresh.channel = static_cast<std::size_t>(channel - channels_.data());
    fresh.kind = {channel->reported, call.function, BytesOf(call), 0, 0};
  }
  OpenArrival& open = open_arrivals_[channel->arrival];
  const bool alike = open.kind.function == call.function && open.kind.bytes == BytesOf(call);
  open.kind.function = call.function;
  open.kind.bytes = BytesOf(call);
  open.kind.alike = alike ? open.kind.alike + 1 : 1;
  ++open.kind.calls;
  open.position = call.position;
  open.entered_ns = call.entered_ns;
  open.kernel_ns = KernelNs(call);
  if (Blocks(call)) open.inside_ns = std::max<std::int64_t>(0, open.inside_ns) + InsideNs(call);
  if (channel->to_come > 0) --channel->to_come;
}

std::uint16_t StepFollower::KindOf(const ReportedKind& kind) {
  const auto found = std::find(reported_.kinds.begin(), reported_.kinds.end(), kind);
  const auto index = static_cast<std::uint16_t>(found - reported_.kinds.begin());
  if (found == reported_.kinds.end() && index < kMostKinds) reported_.kinds.push_back(kind);
  return index;
}

// channels_.size(): it is not followed.
std::size_t StepFollower::ChannelOf(const ReportedChannel& reported) {
  const bool collectives = reported.peer < 0;
  if (collectives && reported.communicator < collectives_.size() && collectives_[reported.communicator] != 0) {
    const std::size_t index = collectives_[reported.communicator] - 1;
    if (channels_[index].reported.generation == reported.generation) return index;
  }
  const auto known =
      std::find_if(channels_.begin(), channels_.end(), [&](const auto& one) { return one.reported == reported; });
  if (known != channels_.end()) return static_cast<std::size_t>(known - channels_.begin());
  const std::uint64_t id = IdentityOf(box_, reported.communicator, reported.generation);
  if (id == 0) return channels_.size();
  // An entry of the table that has been given to another communicator leaves its place to that one.
  auto place = std::find_if(channels_.begin(), channels_.end(), [&](const Channel& one) {
    return one.reported.communicator == reported.communicator && one.reported.generation != reported.generation;
  });
  if (place == channels_.end()) {
    if (channels_.size() >= (collectives ? kMostChannels : kMostChannels / 2)) return channels_.size();
    place = channels_.emplace(channels_.end());
  }
  *place = {};
  place->reported = reported;
  place->id = id;
  place->compared = Load(box_.communicator(reported.communicator).size) > 1;
  const auto index = static_cast<std::size_t>(place - channels_.begin());
  if (collectives) {
    collectives_.resize(std::max<std::size_t>(collectives_.size(), reported.communicator + 1));
    collectives_[reported.communicator] = index + 1;
  }
  return index;
}

ReportedRank StepFollower::Take() {
  ReportedRank taken = std::move(reported_);
  reported_ = {};
  reported_.peers = taken.peers;  // with whom messages are exchanged holds on
  reported_.many_peers = taken.many_peers;
  const format::Header& header = box_.header();
  taken.pid = header.identity.pid;
  taken.start_time = header.identity.start_time;
  taken.stretches = loop_ && loop_->stretches;
  return taken;
}

}  // namespace ncclwatch::diagnosis
