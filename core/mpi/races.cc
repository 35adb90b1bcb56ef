#include "core/mpi/races.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "core/calls/mpi_clash.h"
#include "core/calls/mpi_message.h"
#include "core/view/mpi_ended.h"
#include "core/view/mpi_traits.h"

namespace ncclwatch::diagnosis {
namespace {

using reader::Call;

constexpr std::uint64_t kMostCost = 20'000'000;  // some seconds at the worst; what is beyond is not looked at
constexpr std::size_t kMostTaken = 64;           // receives before one that waits

bool IsWildcard(const Call& call) { return (call.flags & format::kAnySource) != 0; }

bool AnyWildcardReceive(const View& view) {
  for (const CommView& comm : view.comms) {
    if (!comm.comparable || !SpeaksMpi(comm)) continue;
    for (const Member& member : comm.members) {
      for (const Call* call : member.messages)
        if (IsWildcard(*call)) return true;
      for (const Call* probe : member.probes)
        if (IsWildcard(*probe)) return true;
    }
  }
  return false;
}

// From when on all that the process has done is there.
std::int64_t KnownSince(const Process& process) {
  const reader::BoxImage& box = *process.box;
  std::int64_t since = INT64_MIN;
  if (box.first_slot > 0) since = process.At(box.calls.empty() ? box.heartbeat_ns : box.calls.front().entered_ns);
  if (box.left_out > 0) since = std::max(since, process.At(box.left_out_until_ns));
  return since;
}

// Messages from any source into receives that are all alike: whichever comes first.
bool AllAlike(const Inbox& inbox) {
  for (const auto& [from, messages] : inbox.from)
    if (std::any_of(messages.begin(), messages.end(), [](const Message& message) { return message.delivery < 0; }))
      return false;
  const Delivery* room = nullptr;
  const Delivery* first = nullptr;
  for (const Delivery& delivery : inbox.deliveries) {
    if (!delivery.any_source) {
      if (first != nullptr) return false;
      continue;
    }
    if (first == nullptr) first = &delivery;
    if (delivery.any_tag != first->any_tag || (!first->any_tag && delivery.receive->tag != first->receive->tag))
      return false;
    if (delivery.probe != nullptr) continue;
    if (room == nullptr) room = &delivery;
    const Call &a = *room->receive, &b = *delivery.receive;
    if (a.bytes != b.bytes || a.dtype != b.dtype || a.signature != b.signature) return false;
  }
  return true;
}

bool Fits(const Call& send, const Delivery& into) {
  if (into.probe != nullptr) return true;  // its room was made for what the probe had found
  const Clash clash = ClashOf(send, *into.receive);
  return clash == Clash::kNone || clash == Clash::kBytes;
}

std::uint32_t RankOf(const Member& member) { return member.comm->rank; }

// The other receive was called before this one was over.
bool WasCalledBefore(const Delivery& delivery, std::uint64_t other) {
  const Call& receive = *delivery.receive;
  return delivery.probe == nullptr && (receive.flags & format::kRequest) != 0 && other + 1 < receive.waiter;
}

bool IsOfTheOther(Harm harm) { return harm == Harm::kStarves || harm == Harm::kOtherDoesNotFit; }

// The program is told whose message it has got before it calls the other receive, and may have called that one for it:
// who serves the first comer and then all others by name is right, and one run shows no difference.
bool MayChoose(const Delivery& delivery, std::uint64_t other) {
  if (delivery.probe == nullptr && (delivery.receive->flags & format::kNoStatus) != 0) return false;
  return !WasCalledBefore(delivery, other);
}

// It does, by what it has done elsewhere: who was taken by the wildcard receive is left out of the receives that
// follow, which name all others.
bool Chooses(const Inbox& inbox, int taken, int other) {
  const std::uint64_t site = inbox.deliveries[taken].receive->site, later_site = inbox.deliveries[other].receive->site;
  const auto sender = [&](int at) { return RankOf(*inbox.deliveries[at].sender); };
  std::set<std::uint32_t> takers, later, followers;  // senders: at the one site, at the other, there up to the next
  bool follows = false;
  for (int i = 0; i < std::ssize(inbox.deliveries); ++i) {
    const Delivery& delivery = inbox.deliveries[i];
    if (delivery.any_source && delivery.receive->site == site) {
      takers.insert(sender(i));
      follows = i == taken;
    } else if (!delivery.any_source && delivery.receive->site == later_site) {
      later.insert(sender(i));
      if (follows) followers.insert(sender(i));
    }
  }
  if (followers.contains(sender(taken)) || later.size() < 2) return false;
  const bool among = followers.size() > 1 && *followers.begin() < sender(taken) && sender(taken) < *followers.rbegin();
  return among || takers.size() > 1;
}

}  // namespace

// What follows on one receive, asked for many rivals.
struct Races::Look {
  std::optional<Order::After> met, sent;
};

Order& Races::order() {
  if (!order_) order_.emplace(view_, inboxes_);
  return *order_;
}

bool Races::Spent() const { return cost_ + (order_ ? order_->cost() : 0) > kMostCost; }

bool Races::Prepare() {
  if (prepared_) return usable_;
  prepared_ = true;
  if (!AnyWildcardReceive(view_) || std::any_of(view_.processes.begin(), view_.processes.end(), HasIncompleteHistory))
    return false;
  if (std::ssize(view_.nodes) < view_.expected) return false;
  for (const Process& process : view_.processes) known_since_ns_ = std::max(known_since_ns_, KnownSince(process));
  channels_.emplace(view_);
  inboxes_ = MakeInboxes(view_, *channels_);
  known_since_ns_ = std::max(known_since_ns_, inboxes_.unclear_until_ns);
  return usable_ = true;
}

bool Races::ReachesBack(const Inbox& inbox, const Delivery& taken) const {
  if (known_since_ns_ == INT64_MIN) return true;
  return view_.process(*inbox.receiver).At(taken.receive->entered_ns) - kClocksApartNs > known_since_ns_;
}

std::vector<Race> Races::OfEndedJob() {
  if (!AllFinalized(view_) || !Prepare()) return {};
  std::vector<Race> races;
  for (const Inbox& inbox : inboxes_.all) {
    if (view_.comms[inbox.comm].members.size() < view_.comms[inbox.comm].size || !AllKnown(*inbox.receiver)) continue;
    if (AllAlike(inbox)) continue;
    if (auto race = FirstIn(inbox)) races.push_back(*race);
  }
  return races;
}

// The first one that is sure, else the first.
std::optional<Race> Races::FirstIn(const Inbox& inbox) {
  std::optional<Race> first;
  std::map<std::uint32_t, std::size_t> begin;  // by sender: what is before it was received before
  for (int taken = 0; taken < std::ssize(inbox.deliveries); ++taken) {
    const Delivery& delivery = inbox.deliveries[taken];
    if (!delivery.any_source || !ReachesBack(inbox, delivery)) continue;
    Look look;
    for (const auto& [sender, messages] : inbox.from) {
      if (Spent()) return first;
      if (sender == RankOf(*delivery.sender)) continue;  // its messages come in order
      const auto is_left = [&](const Message& message) { return message.delivery < 0 || message.delivery > taken; };
      std::size_t& at = begin[sender];
      while (at < messages.size() && !is_left(messages[at])) ++at, ++cost_;
      const auto rival = std::find_if(messages.begin() + static_cast<std::ptrdiff_t>(at), messages.end(),
                                      [&, sender = sender](const Message& message) {
                                        ++cost_;
                                        return is_left(message) && delivery.Takes(sender, message.send->tag);
                                      });
      if (rival == messages.end()) continue;
      std::optional<Race> race = RaceFor(inbox, taken, sender, *rival, &look);
      if (race && race->sure) return race;
      if (race && !first) first = race;
    }
  }
  return first;
}

std::optional<Race> Races::RaceFor(const Inbox& inbox, int taken, std::uint32_t sender, const Message& rival,
                                   Look* look) {
  const std::optional<Harm> harm = HarmOf(inbox, taken, rival);
  const Delivery& delivery = inbox.deliveries[taken];
  const Member& from = *inbox.senders.at(sender);
  const std::uint64_t other = rival.delivery >= 0 ? inbox.deliveries[rival.delivery].posted : UINT64_MAX;
  if (!harm || (IsOfTheOther(*harm) && MayChoose(delivery, other))) return std::nullopt;
  if (Ordered(inbox, delivery, from, *rival.send, look)) return std::nullopt;
  if (!look->sent) look->sent = order().Entered(*delivery.sender, *delivery.send);
  Race race;
  race.comm = inbox.comm;
  race.receiver = inbox.receiver;
  race.taken = delivery;
  race.rival_sender = &from;
  race.rival = rival.send;
  if (rival.delivery >= 0) race.other = inbox.deliveries[rival.delivery].receive;
  race.harm = *harm;
  if (*harm == Harm::kStarves && !WasCalledBefore(delivery, other) && Chooses(inbox, taken, rival.delivery))
    return std::nullopt;
  const bool blind = WasCalledBefore(delivery, other) || delivery.send->bytes == 0;  // the message may say whose it is
  race.sure = *harm != Harm::kLeftOver && !delivery.looked && (*harm == Harm::kDoesNotFit || blind) &&
              !look->sent->Enters(from.process, *rival.send);
  return race;
}

std::optional<Harm> Races::HarmOf(const Inbox& inbox, int taken, const Message& rival) {
  const Delivery& delivery = inbox.deliveries[taken];
  if (!Fits(*rival.send, delivery)) return Harm::kDoesNotFit;
  if (rival.delivery < 0) return channels_->Free(rival.send) ? std::optional(Harm::kLeftOver) : std::nullopt;
  const Delivery& other = inbox.deliveries[rival.delivery];
  if (other.Takes(RankOf(*delivery.sender), delivery.send->tag))
    return Fits(*delivery.send, other) ? std::nullopt : std::optional(Harm::kOtherDoesNotFit);
  return CanBeServed(inbox, taken, rival) ? std::nullopt : std::optional(Harm::kStarves);
}

// With the rival taken, the receive that got it takes another message; the one that got that takes another in turn;
// until one takes the message that is free now, or one that nobody has received.
bool Races::CanBeServed(const Inbox& inbox, int taken, const Message& rival) {
  const Delivery& free = inbox.deliveries[taken];
  const Order::After over = order().Met(inbox, inbox.deliveries[rival.delivery]);
  std::vector<int> next = {rival.delivery};
  std::set<std::tuple<bool, bool, std::int32_t, std::int32_t>> seen;  // envelopes
  for (bool is_first = true; !next.empty(); is_first = false) {
    const Delivery& hungry = inbox.deliveries[next.back()];
    next.pop_back();
    if (hungry.Takes(RankOf(*free.sender), free.send->tag)) return true;
    const Call& call = *hungry.receive;
    const std::tuple envelope(hungry.any_source, hungry.any_tag, hungry.any_source ? -1 : call.root,
                              hungry.any_tag ? -1 : call.tag);
    if (!is_first && !seen.insert(envelope).second) continue;
    for (const auto& [sender, messages] : inbox.from) {
      for (const Message& message : messages) {
        ++cost_;
        if (message.send == rival.send || !hungry.Takes(sender, message.send->tag)) continue;
        // What comes only after the receive is over cannot end it.
        if (is_first && over.Enters(inbox.senders.at(sender)->process, *message.send)) continue;
        if (message.delivery < 0) return true;
        if (message.delivery > taken) next.push_back(message.delivery);
      }
    }
    if (Spent()) return true;
  }
  return false;
}

bool Races::Ordered(const Inbox& inbox, const Delivery& taken, const Member& sender, const Call& rival, Look* look) {
  if (!look->met) look->met = order().Met(inbox, taken);
  return look->met->Enters(sender.process, rival);
}

std::optional<Race> Races::Behind(int comm, const Member& member, const Call& waiting) {
  if (IsWildcard(waiting) || waiting.root < 0 || !Prepare()) return std::nullopt;
  const auto inbox = std::find_if(inboxes_.all.begin(), inboxes_.all.end(),
                                  [&](const Inbox& one) { return one.comm == comm && one.receiver == &member; });
  if (inbox == inboxes_.all.end()) return std::nullopt;
  std::size_t tried = 0;
  for (auto taken = inbox->deliveries.rbegin(); taken != inbox->deliveries.rend() && !Spent(); ++taken) {
    if (!taken->any_source || taken->posted > waiting.slot || !ReachesBack(*inbox, *taken)) continue;
    if (!Takes(waiting, RankOf(*taken->sender), taken->send->tag)) continue;
    if (++tried > kMostTaken) break;
    Look look;
    for (const auto& [sender, from] : inbox->senders) {
      const Channel* channel = channels_->Of(comm, sender, RankOf(member));
      if (sender == RankOf(*taken->sender) || channel == nullptr || !channel->known || channel->lossy) continue;
      for (const Call* rival : channel->under_way) {
        if (!channels_->Free(rival) || !taken->Takes(sender, rival->tag) || !Fits(*rival, *taken)) continue;
        if (Ordered(*inbox, *taken, *from, *rival, &look)) break;
        return Race{comm, &member, *taken, from, rival, &waiting, Harm::kHangs, !MayChoose(*taken, waiting.slot)};
      }
    }
  }
  return std::nullopt;
}

std::optional<Race> Races::BehindBoth(int comm, const Member& member, const Call& waiting) {
  if (IsWildcard(waiting) || waiting.root < 0 || !Prepare()) return std::nullopt;
  const auto in_vain = [&](const Call* call) {
    return IsReceive(*call) && IsOpen(*call) && call->BlocksCaller() && channels_->ClaimOf(call) == nullptr;
  };
  if (std::any_of(member.messages.begin(), member.messages.end(), in_vain)) return std::nullopt;
  const auto sender = static_cast<std::uint32_t>(waiting.root);
  const Channel* channel = channels_->Of(comm, sender, RankOf(member));
  if (channel == nullptr || !channel->known || channel->lossy || channel->sender == nullptr) return std::nullopt;
  std::vector<const Call*> wanted;
  for (const Call* send : channel->under_way)
    if (Takes(waiting, sender, send->tag)) wanted.push_back(send);
  if (wanted.size() != 1) return std::nullopt;
  for (const Call* first : member.messages) {
    if (first->slot >= waiting.slot || !IsReceive(*first) || !IsOpen(*first) || !IsWildcard(*first)) continue;
    if (!Takes(*first, sender, wanted.front()->tag)) continue;
    for (const auto& [key, other] : channels_->all()) {
      const auto [of_comm, from, to] = key;
      if (of_comm != comm || to != RankOf(member) || from == sender || !other.known || other.sender == nullptr)
        continue;
      const auto rival = std::find_if(other.under_way.begin(), other.under_way.end(),
                                      [&, from = from](const Call* send) { return Takes(*first, from, send->tag); });
      if (rival == other.under_way.end()) continue;
      Race race{comm, &member, {}, other.sender, *rival, &waiting, Harm::kHangs, true};
      race.taken.sender = channel->sender;
      race.taken.send = wanted.front();
      race.taken.receive = first;
      race.taken.posted = first->slot;
      race.taken.any_source = true;
      race.taken.any_tag = (first->flags & format::kAnyTag) != 0;
      return race;
    }
  }
  return std::nullopt;
}

}  // namespace ncclwatch::diagnosis
