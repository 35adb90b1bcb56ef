// What leaders say to one another on a proven connection, beside what their users say: the payloads of frames.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "watchdog/exchange/net/endpoint.h"
#include "watchdog/exchange/protocol/exchange.h"

namespace ncclwatch::exchange {

enum class Kind : std::uint16_t {
  kJoin = 1,        // dialer to listener: who I am; may I be your member
  kWelcome = 2,     // hub: you are
  kElsewhere = 3,   // no, and there is the hub that I know; or from the hub to a member: go there
  kYield = 4,       // hub to hub: you have the better claim, I give way
  kSuccession = 5,  // hub to member: who is next in line
  kPing = 6,        // member to hub
  kPong = 7,
  kLeave = 8,  // I end, in good order
  kMessage = 9,
};

// What makes one hub give way to another: the more members, then the later term, then the name.
struct Claim {
  std::uint32_t members = 0;
  std::uint64_t term = 0;
  std::string node;
  bool Beats(const Claim& other) const;
};

struct Join {
  bool hub = false;
  std::uint64_t incarnation = 0;
  std::uint64_t term = 0;     // the latest that it knows
  std::uint32_t members = 0;  // a hub's
  std::uint16_t port = 0;     // where it listens itself
  std::string node, host;
  std::uint32_t search = 0;  // which of its searches for a hub this call is of: it may call by several ways at once
  std::string Encode() const;
  static std::optional<Join> Decode(std::string_view payload);
};

struct Welcome {
  std::uint64_t incarnation = 0;
  std::uint64_t term = 0;
  std::uint32_t order = 0;
  std::uint32_t ping_ms = 0;
  std::uint16_t port = 0;
  std::string node, host;
  std::string Encode() const;
  static std::optional<Welcome> Decode(std::string_view payload);
};

struct Redirect {
  std::uint64_t term = 0;
  std::optional<Endpoint> hub;  // none: looking for one myself
  std::string node;             // the hub's
  bool guessable = false;       // not said: how the connection was proved by which it came
  std::string Encode() const;
  static std::optional<Redirect> Decode(std::string_view payload);
};

struct Successor {
  std::uint32_t order = 0;
  Endpoint at;
  std::string node, host;
};
struct SuccessionList {
  static constexpr std::size_t kMost = 16;  // all of them and the hub gone at once: the job is gone too
  std::uint64_t term = 0;
  std::uint32_t ping_ms = 0;
  std::vector<Successor> successors;  // first in line first
  std::string Encode() const;
  static std::optional<SuccessionList> Decode(std::string_view payload);
};

struct Ping {
  std::int64_t sent_ns = 0;
  std::int64_t offset_ns = 0, error_ns = -1;  // the hub's clock minus mine, as I know it so far
  std::string Encode() const;
  static std::optional<Ping> Decode(std::string_view payload);
};
struct Pong {
  std::int64_t sent_ns = 0, came_ns = 0, left_ns = 0;
  std::string Encode() const;
  static std::optional<Pong> Decode(std::string_view payload);
};

// The head of a message; the body follows. `other`: to whom, on the way to the hub, and from whom, on the way from it.
struct Envelope {
  Type type = Type::kSummary;
  std::uint64_t term = 0;
  std::string other;
  std::string Encode() const;
  static std::optional<Envelope> Decode(std::string_view payload, std::string_view* body);
};

}  // namespace ncclwatch::exchange
