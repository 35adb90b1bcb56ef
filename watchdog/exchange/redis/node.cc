#include "watchdog/exchange/redis/node.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <ctime>
#include <utility>

#include "ncclwatch/nanoseconds.h"
#include "watchdog/exchange/protocol/bytes.h"
#include "watchdog/exchange/protocol/crypto.h"
#include "watchdog/exchange/redis/kinds.h"

namespace ncclwatch::exchange {
namespace {

// Compared with what was read: between reading and writing somebody else may have taken it.
constexpr std::string_view kReplace =
    "if redis.call('get',KEYS[1])==ARGV[1] then redis.call('set',KEYS[1],ARGV[2],'px',ARGV[3]) return 1 end return 0";
constexpr std::string_view kDelete =
    "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) end return 0";
constexpr std::int64_t kLeastLength_ms = 2000;
constexpr std::int64_t kSayEvery_ns = 60'000'000'000;
constexpr int kBeats = 4;  // that may be lost

constexpr std::int64_t kIdle_ns = 250 * kMs, kPause_ns = 750 * kMs, kPeersEvery_ns = 100 * kMs;
constexpr std::int64_t kFirstWait_ns = 100 * kMs, kLongestWait_ns = 2 * kSecond;
constexpr std::int64_t kSayAfter_ns = 30 * kSecond, kComplainEvery_ns = 60 * kSecond;
constexpr std::size_t kMostUnsent = 256 << 10;
// A new hub looks back so far for what was said to the one before.
constexpr std::int64_t kLookBack_ms = 2000;

std::string PrefixOf(std::string_view job) {
  const Digest digest = HashOf({"ncclwatch redis keys ", job});
  return "ncclwatch:" + Hex(std::span(digest).first(12)) + ":";
}

std::vector<std::string> Hosts(const Address& address) { return {address.host}; }

}  // namespace

std::int64_t Lease::Length_ms() const {
  return std::max<std::int64_t>(kLeastLength_ms, std::int64_t{kBeats} * handler_->PingMs());
}

std::string Lease::NewValue(std::int64_t now_ns, std::uint64_t term) {
  std::string body;
  Writer(&body).Put(handler_->PingMs()).PutRaw(handler_->OwnPresence(now_ns).Encode());
  Note note = handler_->NewNote(kLeaseNote, kHubChannel, std::move(body));
  note.term = term;
  return seal_->Close(note);
}

std::optional<Lease::Hub> Lease::Read(const std::string& value) const {
  const std::optional<Note> note = seal_->Open(value);
  if (!note || note->type != kLeaseNote || note->channel != kHubChannel) return std::nullopt;
  // One that somebody put back later: its hub would have renewed it.
  if (handler_->ServerMs(Now()) - note->sent_ms > kMostAge_ms) return std::nullopt;
  Reader reader(note->body);
  const std::uint32_t ping_ms = reader.Get<std::uint32_t>();
  const std::optional<Presence> presence = Presence::Decode(reader.rest());
  if (!presence) return std::nullopt;
  return Hub{note->from, note->incarnation, note->term, ping_ms, *presence, 0};
}

void Lease::Beat(RedisLink* link) {
  link->Command({"GET", key_}, [this, link](const Reply& reply) { OnValue(link, reply); });
}

void Lease::OnValue(RedisLink* link, const Reply& reply) {
  if (reply.kind == Reply::Kind::kNil) return OnAbsent(link);
  if (reply.kind != Reply::Kind::kText) return;
  std::optional<Hub> hub = Read(reply.text);
  if (!hub) {
    if (Now() < say_again_ns_) return;
    say_again_ns_ = Now() + kSayEvery_ns;
    if (IsOfOtherVersion(reply.text))
      return context_->mailbox->Say("Redis: the hub runs another version of ncclwatch: they cannot exchange anything");
    return context_->mailbox->Say(fmt::format("Redis: the hub's entry {} was not made with this job's token", key_));
  }
  absent_since_ns_ = 0;
  const Self& self = context_->setup.self;
  if (hub->node == self.node && hub->incarnation <= self.incarnation) {
    // Ours, or our predecessor's on this node: the successor is hub at once.
    term_ = hub->incarnation == self.incarnation ? std::max(term_, hub->term) : std::max(term_, TermAfter(hub->term));
    return Replace(link, reply.text);
  }
  if (mine_) Lost();
  was_mine_ = false;
  had_hub_ = true;
  term_ = std::max(term_, hub->term);
  hub->heard_ns = hub_ && value_ == reply.text ? hub_->heard_ns : Now();
  value_ = reply.text;
  const bool other =
      !hub_ || hub_->node != hub->node || hub_->incarnation != hub->incarnation || hub_->term != hub->term;
  hub_ = std::move(hub);
  if (other) handler_->OnHubChanged();
}

void Lease::OnAbsent(RedisLink* link) {
  const std::int64_t now_ns = Now();
  if (absent_since_ns_ == 0) absent_since_ns_ = now_ns;
  if (hub_) {
    hub_.reset();
    handler_->OnHubChanged();
  }
  // Who was hub until the server forgot everything comes first, then whoever is quickest.
  const bool first = mine_ || was_mine_ || !had_hub_;
  if (first || now_ns - absent_since_ns_ >= context_->setup.timing.succession) Take(link);
}

void Lease::Replace(RedisLink* link, const std::string& old) {
  const std::int64_t now_ns = Now();
  const std::uint64_t term = term_;
  std::string value = NewValue(now_ns, term);
  if (value.empty()) return;
  const std::string length = std::to_string(Length_ms());
  link->Command({"EVAL", kReplace, "1", key_, old, value, length}, [this, now_ns, value, term](const Reply& reply) {
    if (reply.kind == Reply::Kind::kNumber && reply.number == 1) Won(now_ns, value, term);
  });
}

void Lease::Take(RedisLink* link) {
  const std::int64_t now_ns = Now();
  const std::uint64_t term = mine_ ? term_ : TermAfter(term_);
  std::string value = NewValue(now_ns, term);
  if (value.empty()) return;
  const std::string length = std::to_string(Length_ms());
  link->Command({"SET", key_, value, "NX", "PX", length}, [this, now_ns, value, term](const Reply& reply) {
    if (reply.kind == Reply::Kind::kText && reply.text == "OK") Won(now_ns, value, term);
  });
}

void Lease::Won(std::int64_t asked_ns, std::string value, std::uint64_t term) {
  // Counted from before it was asked for: we never believe in it for longer than the server does.
  until_ns_ = asked_ns + Length_ms() * 1'000'000;
  value_ = std::move(value);
  term_ = std::max(term_, term);
  absent_since_ns_ = 0;
  had_hub_ = was_mine_ = true;
  hub_.reset();
  if (!std::exchange(mine_, true)) handler_->OnHubChanged();
}

void Lease::Lost() {
  mine_ = false;
  handler_->OnHubChanged();
}

void Lease::Tick(std::int64_t now_ns) {
  if (mine_ && now_ns > until_ns_) Lost();
}

void Lease::GiveBack(RedisLink* link) {
  if (!mine_) return;
  mine_ = was_mine_ = false;
  link->Command({"EVAL", kDelete, "1", key_, value_}, nullptr);
}

RedisNode::RedisNode(const Setup& setup, Loop* loop, Mailbox* mailbox)
    : context_(setup, loop, mailbox),
      prefix_(PrefixOf(setup.job)),
      own_channel_(kNodeChannel + setup.self.node),
      resolver_(Hosts(setup.address)),
      seal_(context_.keys, setup.job),
      roster_(&context_),
      lease_(&context_, &seal_, Key(kHubChannel), this),
      down_since_ns_(Now()) {
  context_.awake_ns = ticked_ns_ = down_since_ns_;
  timespec real{};
  clock_gettime(CLOCK_REALTIME, &real);
  // Later than whatever this leader said before it began anew.
  number_ = static_cast<std::uint64_t>(real.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(real.tv_nsec);
}

RedisNode::~RedisNode() = default;

std::uint32_t RedisNode::PingMs() const {
  const auto base = static_cast<std::uint32_t>(context_.setup.timing.ping / kMs);
  if (!lease_.mine()) return lease_.hub() ? std::clamp(lease_.hub()->ping_ms, 10u, 10'000u) : base;
  return base * (roster_.size() <= 64 ? 1 : roster_.size() <= 256 ? 2 : 4);
}

std::int64_t RedisNode::ServerMs(std::int64_t now_ns) const {
  return (now_ns + clock_.Best(now_ns).value_or(ClockOffset()).offset_ns) / kMs;
}

Presence RedisNode::OwnPresence(std::int64_t now_ns) const {
  const ClockOffset offset = clock_.Best(now_ns).value_or(ClockOffset());
  return {context_.setup.self.host.substr(0, kMaxName), offset.offset_ns, offset.error_ns};
}

Note RedisNode::NewNote(std::uint16_t type, const std::string& channel, std::string body) {
  const Self& self = context_.setup.self;
  return {type, self.node, channel, self.incarnation, ++number_, ServerMs(Now()), lease_.term(), std::move(body)};
}

void RedisNode::Tick(std::int64_t now_ns) {
  if (now_ns - std::exchange(ticked_ns_, now_ns) > kPause_ns) context_.awake_ns = now_ns;
  if (!leaving_) {
    resolver_.Tick(now_ns);
    if (!talk_) Dial(now_ns);
  }
  if (talk_) talk_->Tick(now_ns);
  if (listen_) listen_->Tick(now_ns);
  lease_.Tick(now_ns);
  if (!leaving_ && talk_ && talk_->ready() && now_ns >= beat_ns_) Beat(now_ns);
  LookAtMembers(now_ns);
  DrainMailbox();
  Publish(now_ns);
}

std::int64_t RedisNode::Due_ns() const {
  std::int64_t due = ticked_ns_ + kIdle_ns;
  if (!talk_) return std::min(due, std::max(dial_again_ns_, ticked_ns_ + kMs));
  due = std::min(due, talk_->Due_ns());
  if (listen_) due = std::min(due, listen_->Due_ns());
  return talk_->ready() ? std::min(due, beat_ns_) : due;
}

void RedisNode::Dial(std::int64_t now_ns) {
  if (!std::exchange(said_down_, said_down_ || now_ns - down_since_ns_ > kSayAfter_ns) && said_down_)
    context_.mailbox->Say(fmt::format("Redis is not there: {}: {}; until it is, this node is judged alone",
                                      context_.setup.address.ToText(),
                                      resolver_.found().empty() ? "the name is not known" : last_failure_));
  if (now_ns < dial_again_ns_ || resolver_.found().empty()) return;
  wait_ns_ = std::clamp(wait_ns_ * 2, kFirstWait_ns, kLongestWait_ns);
  // Not all nodes in the same moment.
  dial_again_ns_ = now_ns + wait_ns_ / 2 + wait_ns_ / 256 * static_cast<unsigned char>(own_channel_.back()) % wait_ns_;
  const Endpoint& to = resolver_.found()[which_++ % resolver_.found().size()];
  talk_ = Link(to);
}

std::unique_ptr<RedisLink> RedisNode::Link(const Endpoint& to) {
  const Address& address = context_.setup.address;
  // The files are looked at again as long as they are of no use.
  if (address.tls.on && !trust_ && !(trust_ = TlsTrust::Make(address.tls, address.host, &last_failure_)))
    return nullptr;
  if (!address.tls.on && !address.password.empty() && !to.IsLoopback() && !std::exchange(said_plain_, true))
    context_.mailbox->Say(fmt::format(
        "Redis at {}: the password crosses the network unencrypted; rediss:// encrypts it", address.ToText()));
  return RedisLink::Dial(&context_, to.With(address.port), trust_.get(), this);
}

void RedisNode::DialListener() {
  reading_ = false;
  if (listen_) {
    listen_->Close();
    context_.loop->DeferDelete(std::move(listen_));
  }
  const Endpoint& to = resolver_.found()[(which_ - 1) % resolver_.found().size()];
  listen_ = Link(to);
  if (!listen_) CloseBoth(Now(), "no second connection");
}

void RedisNode::CloseBoth(std::int64_t now_ns, const std::string& why) {
  if (std::exchange(up_, false)) down_since_ns_ = now_ns;
  last_failure_ = why;
  reading_ = false;
  for (std::unique_ptr<RedisLink>* const link : {&talk_, &listen_}) {
    if (!*link) continue;
    (*link)->Close();
    context_.loop->DeferDelete(std::move(*link));
  }
  dial_again_ns_ = std::max(dial_again_ns_, now_ns + kFirstWait_ns);
}

void RedisNode::OnEnd(RedisLink*, const std::string& why) { CloseBoth(Now(), why); }

void RedisNode::OnReady(RedisLink* link) {
  if (link == listen_.get()) return ReadOn();
  expire_again_ns_.clear();
  AskTime();
  FindCursors();
  beat_ns_ = 0;
}

void RedisNode::Complain(std::int64_t now_ns, const std::string& what) {
  if (now_ns < complain_again_ns_) return;
  complain_again_ns_ = now_ns + kComplainEvery_ns;
  context_.mailbox->Say(fmt::format("Redis at {}: {}", context_.setup.address.ToText(), what));
}

void RedisNode::AskTime() {
  const std::int64_t asked_ns = Now();
  talk_->Command({"TIME"}, [this, asked_ns](const Reply& reply) {
    if (reply.kind != Reply::Kind::kList || reply.list.size() != 2) return;
    std::int64_t seconds = 0, micros = 0;
    for (const auto& [text, number] : {std::pair(&reply.list[0]->text, &seconds), {&reply.list[1]->text, &micros}})
      std::from_chars(text->data(), text->data() + text->size(), *number);
    constexpr std::int64_t kMostSeconds = std::int64_t{1} << 31;
    if (seconds <= 0 || seconds > kMostSeconds || micros < 0 || micros > 999'999) return;
    const std::int64_t server_ns = seconds * kSecond + micros * 1000;
    clock_.Add(asked_ns, server_ns, server_ns + 999, Now());  // it counts whole microseconds
  });
}

void RedisNode::Beat(std::int64_t now_ns) {
  beat_ns_ = now_ns + PingMs() * kMs;
  AskTime();
  lease_.Beat(talk_.get());
  if (!clock_.Best(now_ns)) return;
  // Read by the hub; also a sign that there is somebody, for the next one.
  if (!lease_.mine()) Put(kInChannel, kPresenceNote, OwnPresence(now_ns).Encode());
  Expire(own_channel_, now_ns);
}

void RedisNode::OnHubChanged() {
  const std::string hub = lease_.hub() ? lease_.hub()->node : "";
  if (hub != hub_node_) {
    if (!hub_node_.empty()) context_.mailbox->Deliver({Type::kLeft, hub_node_, lease_.term(), {}});
    if (!hub.empty()) context_.mailbox->Deliver({Type::kJoined, hub, lease_.term(), {}});
    context_.counters.left += !hub_node_.empty();
    context_.counters.joined += !hub.empty();
    hub_node_ = hub;
    peers_ns_ = 0;
  }
  if (std::exchange(was_hub_, lease_.mine()) == lease_.mine()) return;
  roster_.Clear();
  peers_ns_ = 0;
  beat_ns_ = 0;
  if (!lease_.mine()) return;
  in_cursor_ = fmt::format("{}-0", ServerMs(Now()) - kLookBack_ms);
  // A wait that has begun knows nothing of the hub's stream.
  if (reading_) DialListener();
}

void RedisNode::LookAtMembers(std::int64_t now_ns) {
  if (!lease_.mine() || !Connected() || now_ns - looked_ns_ < kPeersEvery_ns) return;
  looked_ns_ = now_ns;
  for (const std::string& node : roster_.RemoveSilent(now_ns)) {
    ++context_.counters.left;
    context_.mailbox->Deliver({Type::kLeft, node, lease_.term(), kWasSilent});
  }
}

void RedisNode::DrainMailbox() {
  while (Connected() && clock_.Best(ticked_ns_) && (lease_.mine() || lease_.hub()) && talk_->waiting() < kMostUnsent) {
    const std::optional<Outgoing> outgoing = context_.mailbox->TakeOutgoing();
    if (!outgoing) return;
    Send(*outgoing);
  }
}

void RedisNode::Publish(std::int64_t now_ns) {
  Status status;
  status.hub = lease_.mine();
  status.connected = Connected() && (lease_.mine() || lease_.hub());
  status.hub_node = lease_.mine() ? context_.setup.self.node : hub_node_;
  status.term = lease_.term();
  context_.mailbox->Publish(status, context_.counters);
  if (now_ns - peers_ns_ < kPeersEvery_ns) return;
  peers_ns_ = now_ns;
  const std::optional<ClockOffset> own = clock_.Best(now_ns);
  if (!lease_.mine() && lease_.hub()) {
    const Lease::Hub& hub = *lease_.hub();
    roster_.SetOnly(hub.node, hub.incarnation, hub.presence, hub.heard_ns, Connected());
  } else if (!lease_.mine()) {
    roster_.Clear();
  }
  context_.mailbox->PublishPeers(roster_.Peers(own, hub_node_, now_ns));
}

void RedisNode::Leave(std::int64_t now_ns) {
  DrainMailbox();
  leaving_ = true;
  if (!talk_ || !talk_->ready()) return;
  if (lease_.mine())
    lease_.GiveBack(talk_.get());
  else if (clock_.Best(now_ns))
    Put(kInChannel, kByeNote, {});
}

bool RedisNode::Idle() const { return !talk_ || talk_->Idle(); }

std::unique_ptr<Node> MakeRedisNode(const Setup& setup, Loop* loop, Mailbox* mailbox, std::string*) {
  return std::make_unique<RedisNode>(setup, loop, mailbox);
}

}  // namespace ncclwatch::exchange
