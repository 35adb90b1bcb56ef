// What two peers say on one connection, without the connection: the proof of the token, then sealed frames. Bytes in,
// bytes out; no clock, no descriptor. docs/EXCHANGE.md draws the messages.
//
// Each side proves that it holds the token by a MAC over both halves of a new secret under a label of its role, so that
// nothing can be replayed or sent back as an answer. Payloads are then encrypted and authenticated, with their number
// and header, under a key of this connection and direction, made from token and secret: what is replayed, reordered,
// cut or altered is refused, and with it the connection; and who learns the token later cannot read what was recorded.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "watchdog/exchange/protocol/crypto.h"
#include "watchdog/exchange/protocol/exchange.h"

namespace ncclwatch::exchange {

inline constexpr std::uint8_t kWireVersion = 2;  // 1 was signed, not encrypted
inline constexpr std::size_t kMostTokens = 8;
inline constexpr std::size_t kFrameHeader = 8;
inline constexpr std::size_t kFrameMac = kSealTag;
inline constexpr std::size_t kMaxPayload = 1u << 20;

// The tokens of this leader, ready for use. Shared by its connections.
class Keys {
 public:
  explicit Keys(const std::vector<Token>& tokens);
  const std::vector<HmacKey>& all() const { return keys_; }
  bool guessable(std::size_t which) const { return guessable_[which]; }

 private:
  std::vector<HmacKey> keys_;
  std::vector<bool> guessable_;
};

using Nonce = std::array<std::uint8_t, 32>;
std::optional<Nonce> NewNonce();  // none: the kernel has no random bytes to give

struct Frame {
  std::uint16_t kind = 0;
  std::string payload;
};

class Session {
 public:
  enum class Side { kDialer, kListener };
  // keys must outlive it. A dialer has something to send at once.
  // nonce: this side's half of the secret, used once; what is sent follows from it.
  Session(Side side, const Keys* keys, const Nonce& nonce);

  // Bytes that have come. False: the peer is refused for what why() says, now and for ever.
  bool Feed(std::string_view bytes);
  const std::string& why() const { return why_; }
  bool other_version() const { return other_version_; }  // why it was refused: another version of ours
  // What the handshake wants to be sent; empty: nothing.
  std::string TakeOutput();

  bool proven() const { return stage_ == Stage::kOpen; }
  // The peer has shown more than a stranger could: its first message was made with the token.
  bool plausible() const { return stage_ == Stage::kProof || stage_ == Stage::kOpen; }
  // Proved with nothing better than a guessable token, or not at all: a stranger may be behind it.
  bool guessable() const { return guessable_; }
  std::optional<Frame> Take();  // the oldest whole frame
  // Appends one sealed frame to *out; proven() only, head and body together at most kMaxPayload.
  void MessageAuthenticator(std::uint16_t kind, std::string_view head, std::string_view body, std::string* out);

  std::size_t buffered() const { return in_.size(); }

 private:
  enum class Stage { kHello, kChallenge, kProof, kOpen, kRefused };

  bool Refuse(const char* why);
  bool Step();  // takes one message from in_; false: none is whole
  bool RefuseVersion(std::uint8_t version);
  void SayHello();
  bool TakeHello();
  bool TakeChallenge();
  bool TakeProof();
  bool TakeFrame();
  bool Open(std::string_view peer);
  std::optional<std::string> Whole(std::size_t bytes);

  const Side side_;
  const Keys* const keys_;
  const Nonce nonce_;
  Stage stage_;
  std::string why_;
  std::string in_;
  std::size_t taken_ = 0;  // of in_
  std::string out_;
  std::string hello_, challenge_;
  const HmacKey* key_ = nullptr;  // chosen by the listener
  bool guessable_ = true;
  Digest sending_{}, receiving_{};
  bool other_version_ = false;
  std::uint64_t sent_ = 0, received_ = 0;
  std::deque<Frame> frames_;
};

}  // namespace ncclwatch::exchange
