// The part of the Redis node that reads and writes streams.
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <utility>

#include "watchdog/exchange/redis/kinds.h"
#include "watchdog/exchange/redis/node.h"

namespace ncclwatch::exchange {
namespace {

// Nothing stays behind: what a job leaves is gone a minute after its last leader.
constexpr std::string_view kExpire_ms = "60000";
constexpr std::int64_t kExpireAgain_ns = 15'000'000'000;
constexpr std::size_t kMostChannels = 16384;
constexpr std::string_view kMostEntries = "4096";
constexpr std::string_view kBlock_ms = "2000", kEntriesAtOnce = "40";  // of each stream: a reply of the largest fits
constexpr std::int64_t kReadPatience_ns = 4'000'000'000;

// "1700000000000-3"
std::pair<std::uint64_t, std::uint64_t> IdOf(std::string_view text) {
  std::pair<std::uint64_t, std::uint64_t> id{};
  const char* const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, id.first);
  if (first.ptr != end && *first.ptr == '-') std::from_chars(first.ptr + 1, end, id.second);
  return id;
}

}  // namespace

// Where we were; or at the end, when we come first; or at the beginning of what a server that lost everything has.
void RedisNode::FindCursors() {
  for (const std::string& channel : {std::string(kAllChannel), own_channel_}) {
    const bool last = channel == own_channel_;
    talk_->Command({"XREVRANGE", Key(channel), "+", "-", "COUNT", "1"}, [this, channel, last](const Reply& reply) {
      if (reply.IsError()) Complain(Now(), reply.text);
      std::string newest = "0-0";
      if (!reply.list.empty() && !reply.list[0]->list.empty()) newest = reply.list[0]->list[0]->text;
      std::string& cursor = Cursor(channel);
      if (cursor.empty())
        cursor = newest;
      else if (IdOf(newest) < IdOf(cursor))
        cursor = "0-0";
      if (last) DialListener();
    });
  }
}

std::string& RedisNode::Cursor(const std::string& channel) {
  return channel == kAllChannel ? all_cursor_ : channel == kInChannel ? in_cursor_ : own_cursor_;
}

void RedisNode::Expire(const std::string& channel, std::int64_t now_ns) {
  if (expire_again_ns_.size() >= kMostChannels) expire_again_ns_.clear();  // said once more than needed
  std::int64_t& again_ns = expire_again_ns_[channel];
  if (now_ns < again_ns) return;
  again_ns = now_ns + kExpireAgain_ns;
  talk_->Command({"PEXPIRE", Key(channel), kExpire_ms}, nullptr);
}

void RedisNode::Put(const std::string& channel, std::uint16_t type, std::string body) {
  const std::int64_t now_ns = Now();
  const bool expire = now_ns >= expire_again_ns_[channel];
  const auto check = [this](const Reply& reply) {
    if (reply.IsError()) Complain(Now(), reply.text);
  };
  const std::string sealed = seal_.Close(NewNote(type, channel, std::move(body)));
  if (sealed.empty()) {
    ++context_.counters.messages_refused;
    return;
  }
  // Both or neither: a key that was made by us is one that expires.
  if (expire) talk_->Command({"MULTI"}, nullptr);
  talk_->Command({"XADD", Key(channel), "MAXLEN", "~", kMostEntries, "*", "m", sealed}, check);
  if (!expire) return;
  Expire(channel, now_ns);
  talk_->Command({"EXEC"}, check);
}

void RedisNode::ReadOn() {
  reading_ = true;
  if (!std::exchange(up_, true)) {
    // What nobody could say while the server was gone was no silence.
    context_.awake_ns = Now();
    wait_ns_ = 0;
    said_down_ = false;
  }
  std::vector<std::string> keys = {Key(kAllChannel), Key(own_channel_)};
  std::vector<std::string_view> words = {"XREAD", "COUNT", kEntriesAtOnce, "BLOCK", kBlock_ms, "STREAMS"};
  if (lease_.mine()) keys.push_back(Key(kInChannel));
  words.insert(words.end(), keys.begin(), keys.end());
  words.push_back(all_cursor_);
  words.push_back(own_cursor_);
  if (lease_.mine()) words.push_back(in_cursor_);
  listen_->Command(
      words, [this](const Reply& reply) { OnEntries(reply); }, kReadPatience_ns);
}

void RedisNode::OnEntries(const Reply& reply) {
  if (reply.IsError()) {
    Complain(Now(), reply.text);
    return CloseBoth(Now(), reply.text);
  }
  std::vector<std::string> done;
  for (const auto& stream : reply.list) {
    if (stream->list.size() != 2 || !stream->list[0]->text.starts_with(prefix_)) continue;
    const std::string channel = stream->list[0]->text.substr(prefix_.size());
    for (const auto& entry : stream->list[1]->list)
      if (entry->list.size() == 2) OnEntry(channel, entry->list[0]->text, *entry->list[1], &done);
  }
  if (!done.empty()) {
    std::vector<std::string_view> words = {"XDEL"};
    const std::string key = Key(kInChannel);
    words.push_back(key);
    words.insert(words.end(), done.begin(), done.end());
    talk_->Command(words, nullptr);
  }
  if (listen_ && listen_->ready()) ReadOn();
}

void RedisNode::OnEntry(const std::string& channel, const std::string& id, const Reply& fields,
                        std::vector<std::string>* done) {
  Cursor(channel) = id;
  if (channel == kInChannel) done->push_back(id);
  const std::optional<Note> note = fields.list.size() == 2 ? seal_.Open(fields.list[1]->text) : std::nullopt;
  const std::int64_t now_ns = Now();
  if (note && note->from == context_.setup.self.node) return;
  if (!note || note->channel != channel || std::abs(ServerMs(now_ns) - note->sent_ms) > kMostAge_ms ||
      !replays_.IsNew(*note)) {
    ++context_.counters.messages_refused;
    return;
  }
  OnNote(*note, now_ns);
}

void RedisNode::OnNote(const Note& note, std::int64_t now_ns) {
  if (note.type == kByeNote) {
    if (!roster_.Remove(note.from)) return;
    ++context_.counters.left;
    return context_.mailbox->Deliver({Type::kLeft, note.from, lease_.term(), kHasLeft});
  }
  if (lease_.mine() && roster_.Heard(note.from, note.incarnation, now_ns)) {
    ++context_.counters.joined;
    context_.mailbox->Deliver({Type::kJoined, note.from, lease_.term(), {}});
    peers_ns_ = 0;
  }
  if (note.type == kPresenceNote) {
    if (const std::optional<Presence> presence = Presence::Decode(note.body))
      roster_.Learn(note.from, *presence, now_ns);
    return;
  }
  if (note.type < kFirstOfLeaders) return;
  ++context_.counters.messages_in;
  context_.mailbox->Deliver({static_cast<Type>(note.type), note.from, lease_.term(), note.body});
}

void RedisNode::Send(const Outgoing& outgoing) {
  const std::string& own = context_.setup.self.node;
  if (outgoing.to == own || (outgoing.to.empty() && lease_.mine()))
    return context_.mailbox->Deliver({outgoing.type, own, lease_.term(), *outgoing.body});
  ++context_.counters.messages_out;
  const std::string channel = outgoing.to.empty()  ? kInChannel
                              : outgoing.to == "*" ? kAllChannel
                                                   : kNodeChannel + outgoing.to;
  Put(channel, static_cast<std::uint16_t>(outgoing.type), *outgoing.body);
}

}  // namespace ncclwatch::exchange
