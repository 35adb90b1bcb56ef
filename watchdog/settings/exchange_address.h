// The forms of NCCLWATCH_EXCHANGE that name a place.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ncclwatch::settings {

struct Tls {
  bool on = false;
  std::string ca;         // file of those who are believed; empty: the system's
  std::string cert, key;  // files, where the server asks for them; key empty: in the same file
  std::string name;       // that the server's certificate must have; empty: the host
};

struct ExchangeAddress {
  bool redis = false;  // else embedded TCP
  std::string host;    // name or number, IPv6 without brackets
  std::uint16_t port = 0;
  int database = 0;
  std::string user, password;
  Tls tls;  // Redis
};

inline constexpr std::uint16_t kRedisPort = 6379;

// "tcp://host:port" or "redis://[[user]:password@]host[:port][/database]", IPv6 in brackets. "rediss://" is the same
// over TLS, and may end in "?ca=/file&cert=/file&key=/file&name=host". What is not plain in user, password or files is
// written as %XX. None: neither.
std::optional<ExchangeAddress> ParseExchange(std::string_view text);

// The text with user and password made unreadable, for messages.
std::string WithoutSecret(std::string_view text);

}  // namespace ncclwatch::settings
