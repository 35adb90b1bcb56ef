#include "watchdog/exchange/protocol/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "watchdog/exchange/protocol/bytes.h"

namespace ncclwatch::exchange {
namespace {

constexpr std::string_view kHelloMagic = "NCWX", kChallengeMagic = "NCWY";
constexpr std::size_t kFixed = 40;  // magic, version, count, two bytes of zero, nonce
constexpr std::size_t kTag = 16;
constexpr std::size_t kMac = 32;
constexpr std::size_t kRoom = 64 << 10;  // a buffer is not kept larger than this for what may come

constexpr std::size_t kHalfAt = 8;  // of the secret, which is as long as a nonce

// One label for each thing that a token or session key signs.
constexpr std::string_view kSignHello = "ncclwatch 2 hello", kSignListener = "ncclwatch 2 listener",
                           kSignDialer = "ncclwatch 2 dialer", kSignSession = "ncclwatch 2 session",
                           kFromDialer = "dialer to listener", kFromListener = "listener to dialer";

std::string Fixed(std::string_view magic, std::size_t number, const Digest& half) {
  std::string text(magic);
  Writer(&text).Put(kWireVersion).Put(static_cast<std::uint8_t>(number)).Put(std::uint16_t{0}).PutRaw(Text(half));
  return text;
}

}  // namespace

Keys::Keys(const std::vector<Token>& tokens) {
  for (std::size_t i = 0; i < std::min(tokens.size(), kMostTokens); ++i) {
    keys_.emplace_back(tokens[i].bytes);
    guessable_.push_back(tokens[i].guessable);
  }
}

std::optional<Nonce> NewNonce() {
  Nonce nonce;
  if (!RandomBytes(nonce)) return std::nullopt;
  return nonce;
}

Session::Session(Side side, const Keys* keys, const Nonce& nonce)
    : side_(side), keys_(keys), nonce_(nonce), stage_(side == Side::kDialer ? Stage::kChallenge : Stage::kHello) {
  if (side == Side::kDialer) SayHello();
}

bool Session::Refuse(const char* why) {
  stage_ = Stage::kRefused;
  why_ = why;
  in_.clear();
  taken_ = 0;
  return false;
}

std::string Session::TakeOutput() { return std::exchange(out_, {}); }

std::optional<Frame> Session::Take() {
  if (frames_.empty()) return std::nullopt;
  Frame frame = std::move(frames_.front());
  frames_.pop_front();
  return frame;
}

bool Session::Feed(std::string_view bytes) {
  if (stage_ == Stage::kRefused) return false;
  in_ += bytes;
  while (stage_ != Stage::kRefused && Step()) {
  }
  if (stage_ == Stage::kRefused) return false;
  in_.erase(0, std::exchange(taken_, 0));
  if (in_.empty() && in_.capacity() > kRoom) in_.shrink_to_fit();
  return true;
}

bool Session::Step() {
  switch (stage_) {
    case Stage::kHello: return TakeHello();
    case Stage::kChallenge: return TakeChallenge();
    case Stage::kProof: return TakeProof();
    case Stage::kOpen: return TakeFrame();
    case Stage::kRefused: break;
  }
  return false;
}

std::optional<std::string> Session::Whole(std::size_t bytes) {
  if (in_.size() - taken_ < bytes) return std::nullopt;
  std::string whole = in_.substr(taken_, bytes);
  taken_ += bytes;
  return whole;
}

// The peer is told, so that it can say so too: eight bytes that a challenge of any version begins with.
bool Session::RefuseVersion(std::uint8_t version) {
  other_version_ = true;
  Refuse("");
  why_ = fmt::format("runs another version of ncclwatch (its exchange speaks version {}, this one {})", version,
                     kWireVersion);
  if (side_ == Side::kListener) out_ = Fixed(kChallengeMagic, 0, {});
  return false;
}

// hello: magic, version, how many tokens, zero, half of the secret; then for each token its tag over the foregoing.
void Session::SayHello() {
  const std::string fixed = Fixed(kHelloMagic, keys_->all().size(), PublicOf(nonce_));
  hello_ = fixed;
  for (const HmacKey& key : keys_->all()) hello_ += Text(key.Of({kSignHello, fixed})).substr(0, kTag);
  out_ = hello_;
}

bool Session::TakeHello() {
  const std::string_view seen = std::string_view(in_).substr(taken_);
  // As soon as it cannot be one of ours any more: a stranger is not waited for.
  if (seen.substr(0, kHelloMagic.size()) != kHelloMagic.substr(0, seen.size()))
    return Refuse("does not speak our language");
  if (seen.size() < 6) return false;
  if (static_cast<std::uint8_t>(seen[4]) != kWireVersion) return RefuseVersion(static_cast<std::uint8_t>(seen[4]));
  const std::size_t count = static_cast<std::uint8_t>(seen[5]);
  if (count == 0 || count > kMostTokens) return Refuse("has a hello of no sense");
  const std::optional<std::string> hello = Whole(kFixed + count * kTag);
  if (!hello) return false;
  hello_ = *hello;
  const std::string_view fixed = std::string_view(hello_).substr(0, kFixed);
  for (const HmacKey& key : keys_->all()) {
    const Digest tag = key.Of({kSignHello, fixed});
    for (std::size_t i = 0; i < count && !key_; ++i) {
      if (!SameBytes(std::string_view(hello_).substr(kFixed + i * kTag, kTag), Text(tag).substr(0, kTag))) continue;
      key_ = &key;
      challenge_ = Fixed(kChallengeMagic, i, PublicOf(nonce_));
    }
    if (key_) break;
  }
  if (!key_) return Refuse("does not have the job's token");
  challenge_ += Text(key_->Of({kSignListener, hello_, challenge_}));
  out_ += challenge_;
  stage_ = Stage::kProof;
  return true;
}

bool Session::TakeChallenge() {
  const std::string_view seen = std::string_view(in_).substr(taken_);
  if (seen.substr(0, kChallengeMagic.size()) != kChallengeMagic.substr(0, seen.size()))
    return Refuse("does not speak our language");
  if (seen.size() > 4 && static_cast<std::uint8_t>(seen[4]) != kWireVersion)
    return RefuseVersion(static_cast<std::uint8_t>(seen[4]));
  const std::optional<std::string> challenge = Whole(kFixed + kMac);
  if (!challenge) return false;
  challenge_ = *challenge;
  const std::size_t chosen = static_cast<std::uint8_t>(challenge_[5]);
  if (chosen >= keys_->all().size()) return Refuse("has chosen a token that was not offered");
  key_ = &keys_->all()[chosen];
  const std::string_view fixed = std::string_view(challenge_).substr(0, kFixed);
  if (!SameBytes(std::string_view(challenge_).substr(kFixed), Text(key_->Of({kSignListener, hello_, fixed}))))
    return Refuse("does not have the job's token");
  out_ += Text(key_->Of({kSignDialer, hello_, challenge_}));
  return Open(challenge_);
}

bool Session::TakeProof() {
  const std::optional<std::string> proof = Whole(kMac);
  if (!proof) return false;
  if (!SameBytes(*proof, Text(key_->Of({kSignDialer, hello_, challenge_}))))
    return Refuse("does not have the job's token");
  return Open(hello_);
}

bool Session::Open(std::string_view peer) {
  const std::optional<Digest> secret = SharedOf(nonce_, peer.substr(kHalfAt, nonce_.size()));
  if (!secret) return Refuse("sent a half of a secret that is none");
  const HmacKey session(key_->Of({kSignSession, Text(*secret), hello_, challenge_}));
  const bool dialer = side_ == Side::kDialer;
  guessable_ = keys_->guessable(static_cast<std::size_t>(key_ - keys_->all().data()));
  sending_ = session.Of({dialer ? kFromDialer : kFromListener});
  receiving_ = session.Of({dialer ? kFromListener : kFromDialer});
  stage_ = Stage::kOpen;
  return true;
}

// frame: u32 bytes of payload, u16 kind, u8 version, u8 zero; payload, encrypted; 16 bytes of tag over number, header,
// payload.
bool Session::TakeFrame() {
  const std::string_view seen = std::string_view(in_).substr(taken_);
  if (seen.size() < kFrameHeader) return false;
  Reader header(seen.substr(0, kFrameHeader));
  const std::size_t bytes = header.Get<std::uint32_t>();
  Frame frame;
  frame.kind = header.Get<std::uint16_t>();
  if (header.Get<std::uint8_t>() != kWireVersion) return Refuse("sent a frame of another version");
  if (bytes > kMaxPayload) return Refuse("sent a frame that is too large");
  if (seen.size() < kFrameHeader + bytes + kFrameMac) return false;
  std::optional<std::string> payload =
      OpenNumbered(receiving_, received_, seen.substr(0, kFrameHeader), seen.substr(kFrameHeader, bytes + kFrameMac));
  if (!payload) return Refuse("sent a frame that is damaged, repeated or not its own");
  ++received_;
  frame.payload = *std::move(payload);
  taken_ += kFrameHeader + bytes + kFrameMac;
  frames_.push_back(std::move(frame));
  return true;
}

void Session::MessageAuthenticator(std::uint16_t kind, std::string_view head, std::string_view body, std::string* out) {
  const std::size_t at = out->size();
  Writer(out)
      .Put(static_cast<std::uint32_t>(head.size() + body.size()))
      .Put(kind)
      .Put(kWireVersion)
      .Put(std::uint8_t{0})
      .PutRaw(head)
      .PutRaw(body);
  SealNumbered(sending_, sent_++, std::string_view(*out).substr(at, kFrameHeader), at + kFrameHeader, out);
}

}  // namespace ncclwatch::exchange
