#include "watchdog/exchange/tcp/hub.h"

#include <algorithm>
#include <utility>

namespace ncclwatch::exchange {
namespace {

constexpr std::int64_t kLookEvery_ns = 100'000'000;  // at the members' silence

std::uint16_t Number(Kind kind) { return static_cast<std::uint16_t>(kind); }

}  // namespace

Hub::~Hub() {
  for (auto& [node, member] : members_)
    if (member.connection) {
      member.connection->Close();
      context_->loop->DeferDelete(std::move(member.connection));
    }
}

// So that the signs of life of a thousand nodes cost no more than those of some hundred.
std::uint32_t Hub::PingMs() const {
  const std::size_t nodes = by_connection_.size() - doubted_;
  const int times = nodes <= 64 ? 1 : nodes <= 256 ? 2 : 4;
  return static_cast<std::uint32_t>(context_->setup.timing.ping / 1'000'000 * times);
}

bool Hub::HasRoom() {
  if (members_.size() < bounds_.members) return true;
  const auto gone =
      std::find_if(members_.begin(), members_.end(), [](const auto& one) { return !one.second.connection; });
  if (gone == members_.end()) return false;
  members_.erase(gone);
  return true;
}

void Hub::Adopt(std::unique_ptr<Connection> connection, const Join& join, std::int64_t now_ns) {
  auto found = members_.find(join.node);
  if (found != members_.end() && found->second.connection) {
    const Member& known = found->second;
    const bool equals = connection->guessable() == Guessable(known);
    const bool overtaken = equals && join.incarnation < known.incarnation;  // it woke up; its successor stays
    // It takes the first welcome, which is on its way, and hangs up the other calls. Who shows the weaker token is not
    // let in for who has shown the better one.
    const bool another_way =
        !known.doubted &&
        (equals ? join.incarnation == known.incarnation && join.search == known.search : connection->guessable());
    if (overtaken || another_way) {
      connection->Close();
      context_->loop->DeferDelete(std::move(connection));
      return;
    }
    Remove(found, "came again");
  }
  if (found == members_.end() && !HasRoom()) {
    ++context_->counters.messages_refused;
    connection->Close();
    return context_->loop->DeferDelete(std::move(connection));
  }
  Member& member = members_[join.node];
  found = members_.find(join.node);
  // Somebody has seen a later hub than this one is: what comes after must be later still.
  if (join.term > term_) term_ = TermAfter(join.term);
  member.incarnation = join.incarnation;
  member.search = join.search;
  member.order = next_order_++;
  member.at = connection->remote().With(join.port);
  member.host = join.host;
  const AdaptiveTimeout fresh(context_->setup.timing, now_ns);
  member.patience = member.patience ? member.patience->Again(now_ns) : fresh;
  member.offset = {};
  member.connection = std::move(connection);
  member.connection->SetOwner(this);
  by_connection_[member.connection.get()] = found;
  const Self& self = context_->setup.self;
  member.connection->Send(Number(Kind::kWelcome), Welcome{self.incarnation, term_, member.order, PingMs(),
                                                          context_->port, self.node, self.host.substr(0, kMaxName)}
                                                      .Encode());
  // Fresh while there are few: should this hub die in the next moment, a newcomer must know at least those before it.
  if (by_connection_.size() <= SuccessionList::kMost || succession_said_.empty())
    succession_said_ = CurrentSuccession().Encode();
  member.connection->Send(Number(Kind::kSuccession), succession_said_);
  ++context_->counters.joined;
  changed_ = line_stale_ = true;
  context_->mailbox->Deliver({Type::kJoined, join.node, term_, {}, Guessable(member)});
}

std::unique_ptr<Connection> Hub::Release(Members::iterator member, const std::string& why) {
  std::unique_ptr<Connection> connection = std::move(member->second.connection);
  if (!connection) return nullptr;
  by_connection_.erase(connection.get());
  if (std::exchange(member->second.doubted, false)) {
    --doubted_;
    return connection;  // that it is gone has been said
  }
  ++context_->counters.left;
  changed_ = line_stale_ = true;
  context_->mailbox->Deliver({Type::kLeft, member->first, term_, why});
  return connection;
}

void Hub::Suspect(Members::iterator member) {
  member->second.doubted = true;
  ++doubted_;
  ++context_->counters.left;
  changed_ = line_stale_ = true;
  context_->mailbox->Deliver({Type::kLeft, member->first, term_, kWasSilent});
}

void Hub::Unsuspect(Members::iterator member) {
  member->second.doubted = false;
  --doubted_;
  ++context_->counters.joined;
  changed_ = line_stale_ = true;
  context_->mailbox->Deliver({Type::kJoined, member->first, term_, {}, Guessable(member->second)});
}

void Hub::Remove(Members::iterator member, const std::string& why) {
  std::unique_ptr<Connection> connection = Release(member, why);
  if (!connection) return;
  connection->Close();
  context_->loop->DeferDelete(std::move(connection));
}

void Hub::SendTo(Member* member, const std::string& from, Type type, const std::shared_ptr<const std::string>& body) {
  Parcel parcel{Number(Kind::kMessage), MayBeDropped(type), Envelope{type, term_, from}.Encode(), body};
  if (member->connection && member->connection->Send(std::move(parcel))) ++context_->counters.messages_out;
}

void Hub::Route(const std::string& from, const Envelope& envelope, std::shared_ptr<const std::string> body,
                bool guessable) {
  const std::string& own = context_->setup.self.node;
  const bool all = envelope.other == "*";
  if (all) {
    for (auto& [node, member] : members_)
      if (node != from) SendTo(&member, from, envelope.type, body);
  } else if (const auto to = members_.find(envelope.other); to != members_.end()) {
    return SendTo(&to->second, from, envelope.type, body);
  }
  if (envelope.other.empty() || envelope.other == own || (all && from != own))
    context_->mailbox->Deliver({envelope.type, from, term_, *body, guessable});
}

void Hub::SendOwn(const Outgoing& outgoing) {
  Route(context_->setup.self.node, Envelope{outgoing.type, term_, outgoing.to}, outgoing.body, false);
}

void Hub::OnPing(Members::iterator member, const Ping& ping) {
  const std::int64_t now_ns = Now();
  if (ping.error_ns >= 0) {
    member->second.offset = {-ping.offset_ns, ping.error_ns};
    member->second.offset_at_ns = now_ns;
  }
  member->second.connection->Send(Number(Kind::kPong), Pong{ping.sent_ns, now_ns, Now()}.Encode());
}

// Counts for as long as anybody holds it, be it to send it on to members that do not read. Null: no room.
std::shared_ptr<const std::string> Hub::Counted(std::string_view body) {
  const std::size_t bytes = body.size();
  if (*relayed_ + bytes > bounds_.relayed) return nullptr;
  auto held = std::make_unique<const std::string>(body);
  *relayed_ += bytes;
  // If it throws, it has called what ends it.
  return {held.release(), [relayed = relayed_, bytes](const std::string* one) {
            *relayed -= bytes;
            delete one;
          }};
}

void Hub::OnMessage(Members::iterator member, const Frame& frame) {
  std::string_view body;
  const std::optional<Envelope> envelope = Envelope::Decode(frame.payload, &body);
  if (!envelope) {
    ++context_->counters.messages_refused;
    return;
  }
  const bool guessable = Guessable(member->second);
  // What others get from us they take for as good as ours.
  if (guessable && !envelope->other.empty() && envelope->other != context_->setup.self.node) {
    ++context_->counters.messages_refused;
    return;
  }
  std::shared_ptr<const std::string> counted = Counted(body);
  if (!counted) {
    ++context_->counters.messages_refused;
    return;
  }
  ++context_->counters.messages_in;
  Route(member->first, *envelope, std::move(counted), guessable);
}

void Hub::OnFrame(Connection* connection, Frame frame) {
  const auto found = by_connection_.find(connection);
  if (found == by_connection_.end()) return;
  const Members::iterator member = found->second;
  member->second.patience->Heard(Now());
  if (member->second.doubted) Unsuspect(member);
  switch (static_cast<Kind>(frame.kind)) {
    case Kind::kPing:
      if (const std::optional<Ping> ping = Ping::Decode(frame.payload)) OnPing(member, *ping);
      break;
    case Kind::kMessage: OnMessage(member, frame); break;
    case Kind::kLeave: Remove(member, frame.payload == kWasSilent ? kWasSilent : kHasLeft); break;
    default: break;  // of a later version
  }
}

void Hub::OnEnd(Connection* connection, const std::string& why) {
  const auto found = by_connection_.find(connection);
  if (found != by_connection_.end()) Remove(found->second, why);
}

void Hub::Tick(std::int64_t now_ns) {
  if (now_ns < due_ns_) return;
  due_ns_ = now_ns + kLookEvery_ns;
  const std::int64_t most = context_->setup.timing.most_patience;
  for (auto member = members_.begin(); member != members_.end(); ++member) {
    const Connection* const connection = member->second.connection.get();
    if (!connection) continue;
    // A large frame on a slow way is no silence.
    const std::int64_t since_ns = std::max(context_->awake_ns, connection->heard_ns());
    const bool silent = member->second.patience->IsOver(now_ns, since_ns);
    // Talks but does not listen.
    const bool deaf = !connection->idle() && now_ns - std::max(connection->moved_ns(), context_->awake_ns) > most;
    if (deaf || (member->second.doubted && now_ns - since_ns > DoubtFor_ns(context_->setup.timing)))
      context_->lingering.Take(Release(member, kWasSilent));
    else if (silent && !member->second.doubted)
      Suspect(member);
  }
  if (!std::exchange(line_stale_, false)) return;
  succession_said_ = CurrentSuccession().Encode();
  for (auto& [node, member] : members_)
    if (member.connection) member.connection->Send(Number(Kind::kSuccession), succession_said_);
}

SuccessionList Hub::CurrentSuccession() const {
  SuccessionList list{term_, PingMs(), {}};
  for (const auto& [connection, member] : by_connection_)
    if (member->second.at.port != 0 && IsThere(member->second))
      list.successors.push_back({member->second.order, member->second.at, member->first, member->second.host});
  const auto most = std::min(list.successors.size(), SuccessionList::kMost);
  std::partial_sort(list.successors.begin(), list.successors.begin() + static_cast<std::ptrdiff_t>(most),
                    list.successors.end(), [](const Successor& a, const Successor& b) { return a.order < b.order; });
  list.successors.resize(most);
  return list;
}

void Hub::Dismiss(const Redirect& elsewhere) {
  const std::string payload = elsewhere.Encode();
  for (auto member = members_.begin(); member != members_.end(); ++member) {
    if (!member->second.connection) continue;
    member->second.connection->Send(Number(Kind::kElsewhere), payload);
    context_->lingering.Take(Release(member, "was dismissed"));
  }
}

void Hub::SayLeave() {
  for (auto& [node, member] : members_)
    if (member.connection) member.connection->Send(Number(Kind::kLeave), {});
}

bool Hub::Idle() const {
  return std::all_of(by_connection_.begin(), by_connection_.end(),
                     [](const auto& one) { return one.first->idle() || one.second->second.doubted; });
}

Claim Hub::claim() const {
  return {static_cast<std::uint32_t>(by_connection_.size() - doubted_), term_, context_->setup.self.node};
}

bool Hub::Has(const Endpoint& at) const {
  return std::any_of(by_connection_.begin(), by_connection_.end(),
                     [&at](const auto& one) { return one.second->second.at == at && IsThere(one.second->second); });
}

bool Hub::HasProven() const {
  return std::any_of(by_connection_.begin(), by_connection_.end(),
                     [](const auto& one) { return IsThere(one.second->second) && !one.first->guessable(); });
}

std::vector<Peer> Hub::Peers(std::int64_t now_ns) const {
  std::vector<Peer> peers;
  peers.reserve(members_.size());
  for (const auto& [node, member] : members_) {
    Peer peer;
    peer.node = node;
    peer.host = member.host;
    peer.address = member.at.ToText();
    peer.incarnation = member.incarnation;
    if (member.offset.error_ns >= 0) {
      peer.clock_offset_ns = member.offset.offset_ns;
      peer.clock_error_ns =
          member.offset.error_ns + (now_ns - member.offset_at_ns) / 1'000'000 * ClockFilter::kDrift_ppm;
    }
    if (member.patience) {
      peer.last_heard_ns = member.patience->heard_ns();
      peer.late_ns = std::max<std::int64_t>(0, member.patience->longest_gap_ns() - PingMs() * std::int64_t{1'000'000});
    }
    peer.connected = IsThere(member);
    peer.guessable = Guessable(member);
    peers.push_back(std::move(peer));
  }
  return peers;
}

}  // namespace ncclwatch::exchange
