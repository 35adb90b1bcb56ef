// A connection of two ranks: the exchange's session over a socket. Nothing of ours is sent or believed before both
// sides have proved the token.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "analyzer/doctor/ranks/messages.h"
#include "analyzer/doctor/ranks/socket.h"
#include "watchdog/exchange/protocol/session.h"

namespace ncclwatch::doctor {

// What a rank proves itself with, and the address from which it calls and at which it listens.
struct Credentials {
  exchange::Keys keys;
  settings::BindAddress bind;
};

struct Message {
  Kind kind = Kind::kEnd;
  std::string payload;
};

class Channel {
 public:
  // keys must outlive it. Null: the kernel has no random bytes to give.
  static std::unique_ptr<Channel> Make(Socket socket, exchange::Session::Side side, const exchange::Keys& keys);
  // Proven, or null and why.
  static std::unique_ptr<Channel> Dial(const std::string& host, std::uint16_t port, const Credentials& credentials,
                                       std::int64_t until_ns, std::string* why);

  // Takes what has come, without waiting. False: the connection is over; messages that came before may be left.
  bool Pump();
  std::optional<Message> Take();
  // The next one; none: it did not come in time, or the connection is over.
  std::optional<Message> Receive(std::int64_t until_ns);
  // Proven only. False: the peer is gone or slow, or the payload is too large.
  bool Send(Kind kind, std::string_view payload, std::int64_t until_ns);

  bool proven() const { return session_.proven(); }
  bool plausible() const { return session_.plausible(); }
  bool guessable() const { return session_.guessable(); }
  bool HasMore() const { return session_.buffered() != 0; }  // of a message that is not whole
  const Socket& socket() const { return socket_; }

 private:
  Channel(Socket socket, exchange::Session::Side side, const exchange::Keys& keys, const exchange::Nonce& nonce)
      : socket_(std::move(socket)), session_(side, &keys, nonce) {}
  bool Flush();

  Socket socket_;
  exchange::Session session_;
};

}  // namespace ncclwatch::doctor
