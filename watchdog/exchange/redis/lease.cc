#include "watchdog/exchange/redis/lease.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "watchdog/exchange/protocol/bytes.h"
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

}  // namespace ncclwatch::exchange
