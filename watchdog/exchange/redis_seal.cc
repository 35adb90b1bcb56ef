#include "watchdog/exchange/redis_seal.h"

#include <utility>

#include "watchdog/exchange/bytes.h"

namespace ncclwatch::exchange {
namespace {

constexpr std::uint8_t kVersion = 1;
constexpr std::size_t kMac = 16;
constexpr std::size_t kMostChannel = 96;

}  // namespace

Seal::Seal(const Keys& keys, std::string_view job) {
  for (const HmacKey& key : keys.all()) keys_.emplace_back(key.Of({"ncclwatch 1 redis ", job}));
}

std::string Seal::Close(const Note& note) const {
  std::string out;
  Writer writer(&out);
  writer.Put(kVersion).Put(note.type).Put(note.incarnation).Put(note.number).Put(note.sent_ms).Put(note.term);
  writer.PutText(note.from).PutText(note.channel).PutRaw(note.body);
  out += Text(keys_.front().Of({out})).substr(0, kMac);
  return out;
}

std::optional<Note> Seal::Open(std::string_view bytes) const {
  if (bytes.size() < kMac || bytes.size() > kMaxPayload + kMac) return std::nullopt;
  const std::string_view content = bytes.substr(0, bytes.size() - kMac), mac = bytes.substr(content.size());
  bool ours = false;
  for (const HmacKey& key : keys_) ours = ours || SameBytes(mac, Text(key.Of({content})).substr(0, kMac));
  Reader reader(content);
  if (!ours || reader.Get<std::uint8_t>() != kVersion) return std::nullopt;
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
