// Whatever comes over the wire of the exchange, and from Redis. The first byte chooses what the rest is given to. What
// must hold: no crash, bounded buffers, no proof without the token, and that frames arrive as they were sent or not at
// all, whatever is done to the bytes on their way.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "watchdog/exchange/net/resolver.h"
#include "watchdog/exchange/protocol/session.h"
#include "watchdog/exchange/protocol/wire.h"
#include "watchdog/exchange/redis/authenticator.h"
#include "watchdog/exchange/redis/reply.h"
#include "watchdog/exchange/redis/roster.h"
#include "watchdog/exchange/rendezvous/address.h"
#include "watchdog/exchange/rendezvous/token.h"
#include "watchdog/exchange/rendezvous/unique_id.h"
#include "watchdog/exchange/tcp/memory.h"

namespace {

using namespace ncclwatch::exchange;
using Side = Session::Side;

void Require(bool holds) {
  if (!holds) std::abort();
}

const Keys& TheKeys() {
  static const Keys keys({TokenOfSecret("fuzz"), TokenOfSecret("second")});
  return keys;
}

Nonce NonceOf(std::uint8_t byte) {
  Nonce nonce;
  nonce.fill(byte);
  return nonce;
}

// A stranger before either side.
void Stranger(Side side, std::string_view bytes) {
  Session session(side, &TheKeys(), NonceOf(1));
  session.TakeOutput();
  for (std::size_t at = 0; at < bytes.size(); at += 7) session.Feed(bytes.substr(at, 7));
  Require(!session.proven());
  Require(session.buffered() <= 512);
}

// Bytes of a stranger in the middle of a proven connection.
void Intruder(std::string_view bytes) {
  Session dialer(Side::kDialer, &TheKeys(), NonceOf(1)), listener(Side::kListener, &TheKeys(), NonceOf(2));
  Require(listener.Feed(dialer.TakeOutput()) && dialer.Feed(listener.TakeOutput()) &&
          listener.Feed(dialer.TakeOutput()));
  listener.Feed(bytes);
  Require(!listener.Take());
  Require(listener.buffered() <= kMaxPayload + kFrameHeader + kFrameMac + bytes.size());
}

// Two bytes a step: what is done to the bytes between two who hold the token.
void BadNetwork(std::string_view script) {
  Session dialer(Side::kDialer, &TheKeys(), NonceOf(3)), listener(Side::kListener, &TheKeys(), NonceOf(4));
  std::string up = dialer.TakeOutput(), down, old;
  std::vector<std::string> sent;
  std::size_t came = 0;
  bool damaged = false;
  for (; script.size() >= 2; script.remove_prefix(2)) {
    const auto what = static_cast<std::uint8_t>(script[0]), how = static_cast<std::uint8_t>(script[1]);
    std::string& way = what & 8 ? down : up;
    const std::size_t many = std::min<std::size_t>(how, way.size());
    switch (what % 8) {
      case 0:
      case 1: {  // some of it arrives
        const std::string bytes = way.substr(0, many);
        way.erase(0, many);
        (what & 8 ? dialer : listener).Feed(bytes);
        old = bytes;
        break;
      }
      case 2:
        if (dialer.proven()) {
          up += dialer.TakeOutput();
          sent.push_back("message " + std::to_string(sent.size()));
          dialer.MessageAuthenticator(how, "", sent.back(), &up);
        }
        break;
      case 3:
        if (!way.empty()) way[how % way.size()] ^= static_cast<char>(1 << how % 8), damaged = true;
        break;
      case 4: way.insert(0, old), damaged = true; break;
      case 5: way.erase(0, many), damaged = true; break;
      case 6: up += dialer.TakeOutput(), down += listener.TakeOutput(); break;
      case 7: listener.Feed(std::exchange(up, {})), dialer.Feed(std::exchange(down, {})); break;
    }
    while (const auto frame = listener.Take()) {
      Require(came < sent.size() && frame->payload == sent[came]);
      ++came;
    }
    Require(!dialer.Take());
  }
  if (damaged) return;
  // An honest network: what was sent arrives.
  for (int i = 0; i < 3; ++i) {
    up += dialer.TakeOutput();
    Require(listener.Feed(std::exchange(up, {})));
    down += listener.TakeOutput();
    Require(dialer.Feed(std::exchange(down, {})));
  }
  while (listener.Take()) ++came;
  Require(came == sent.size() && dialer.proven() && listener.proven());
}

// What a peer that holds the token may say, sense or nonsense.
void Payload(std::string_view bytes) {
  if (const auto join = Join::Decode(bytes)) Require(Join::Decode(join->Encode()).has_value());
  if (const auto welcome = Welcome::Decode(bytes)) Require(welcome->Encode() == bytes);
  if (const auto elsewhere = Redirect::Decode(bytes)) Require(Redirect::Decode(elsewhere->Encode()).has_value());
  if (const auto list = SuccessionList::Decode(bytes))
    Require(list->Encode() == bytes && list->successors.size() <= SuccessionList::kMost);
  if (const auto ping = Ping::Decode(bytes)) Require(ping->Encode() == bytes);
  if (const auto pong = Pong::Decode(bytes)) Require(pong->Encode() == bytes);
  std::string_view body;
  if (const auto envelope = Envelope::Decode(bytes, &body)) Require(envelope->other.size() <= kMaxName);
  if (const auto presence = Presence::Decode(bytes)) Require(presence->host.size() <= kMaxName);
  if (const auto memory = Memory::Decode(bytes)) Memory::Decode(memory->Encode());
}

void FromRedis(std::string_view bytes) {
  static const MessageAuthenticator seal(TheKeys(), "job");
  Require(!seal.Open(bytes));
  ReplyReader reader;
  for (std::size_t at = 0; at < bytes.size(); at += 11) {
    reader.Feed(bytes.substr(at, 11));
    while (const auto reply = reader.Take()) Require(reply->list.size() <= 1 << 16);
  }
}

void Texts(std::string_view bytes) {
  FirstOfNodeList(bytes);
  ParseAddress(bytes, nullptr);
  InHostsFile(bytes, "localhost");
  Endpoint::Parse(bytes, 1);
  std::array<std::uint8_t, kUniqueIdBytes> id{};
  std::copy_n(bytes.begin(), std::min(bytes.size(), id.size()), id.begin());
  if (const auto tail = TailOf(id)) AddressOf(*tail);
  if (const auto place = PlaceOfNccl(id)) Require(AddressOf(*place).kind == Address::Kind::kTcp);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 7) {
    case 0: Stranger(Side::kListener, rest); break;
    case 1: Stranger(Side::kDialer, rest); break;
    case 2: Intruder(rest); break;
    case 3: BadNetwork(rest); break;
    case 4: Payload(rest); break;
    case 5: FromRedis(rest); break;
    case 6: Texts(rest); break;
  }
  return 0;
}
