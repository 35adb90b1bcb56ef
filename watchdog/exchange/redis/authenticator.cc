#include "watchdog/exchange/redis/authenticator.h"

#include <utility>

#include "watchdog/exchange/protocol/bytes.h"

namespace ncclwatch::exchange {
namespace {

constexpr std::uint8_t kVersion = 2;      // 1 was signed, not encrypted
constexpr std::size_t kMostAround = 128;  // version, nonce, tag, and the note without its names and body
constexpr std::size_t kMostChannel = 96;

std::string_view Version() {
  static constexpr char kByte = kVersion;
  return {&kByte, 1};
}

}  // namespace

bool IsOfOtherVersion(std::string_view bytes) { return !bytes.empty() && !bytes.starts_with(Version()); }

MessageAuthenticator::MessageAuthenticator(const Keys& keys, std::string_view job) {
  for (const HmacKey& key : keys.all()) keys_.push_back(key.Of({"ncclwatch 2 redis ", job}));
}

std::string MessageAuthenticator::Close(const Note& note) const {
  std::string content;
  Writer writer(&content);
  writer.Put(note.type).Put(note.incarnation).Put(note.number).Put(note.sent_ms).Put(note.term);
  writer.PutText(note.from).PutText(note.channel).PutRaw(note.body);
  const std::string sealed = SealAlone(keys_.front(), Version(), content);
  return sealed.empty() ? sealed : std::string(Version()) + sealed;
}

std::optional<Note> MessageAuthenticator::Open(std::string_view bytes) const {
  constexpr std::size_t kMost = kMaxPayload + kMaxName + kMostChannel + kMostAround;
  if (!bytes.starts_with(Version()) || bytes.size() > kMost) return std::nullopt;
  std::optional<std::string> content;
  for (const Digest& key : keys_)
    if ((content = OpenAlone(key, Version(), bytes.substr(1)))) break;
  if (!content) return std::nullopt;
  Reader reader(*content);
  Note note;
  note.type = reader.Get<std::uint16_t>();
  note.incarnation = reader.Get<std::uint64_t>();
  note.number = reader.Get<std::uint64_t>();
  note.sent_ms = reader.Get<std::int64_t>();
  note.term = reader.Get<std::uint64_t>();
  note.from = reader.GetText(kMaxName);
  note.channel = reader.GetText(kMostChannel);
  if (!reader.ok() || note.from.empty() || note.term > kMostTerm) return std::nullopt;
  note.body = reader.rest();
  return note;
}

bool Replays::IsNew(const Note& note) {
  if (last_.size() >= kMost) last_.clear();  // then the age of a message decides alone
  auto& last = last_[{note.from, note.channel}];
  const std::pair now{note.incarnation, note.number};
  if (now <= last) return false;
  last = now;
  return true;
}

}  // namespace ncclwatch::exchange
