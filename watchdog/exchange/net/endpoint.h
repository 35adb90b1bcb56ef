// Numeric addresses with a port, and the sockets between them. All sockets are non-blocking.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "watchdog/exchange/net/descriptors.h"

namespace ncclwatch::exchange {

// IPv4 is kept as the IPv6 address that maps it, so that one form serves for comparing and for the wire.
struct Endpoint {
  std::array<std::uint8_t, 16> address{};
  std::uint16_t port = 0;

  static std::optional<Endpoint> Parse(std::string_view number, std::uint16_t port);
  static std::optional<Endpoint> Of(const sockaddr_storage& from);
  static Endpoint Any(std::uint16_t port);  // of both families

  bool IsV4() const;
  bool IsLoopback() const;
  bool IsAny() const;
  Endpoint With(std::uint16_t other_port) const { return {address, other_port}; }
  socklen_t To(sockaddr_storage* to) const;
  std::string ToText() const;  // "10.0.0.1:80", "[fe80::1]:80"
  bool operator==(const Endpoint&) const = default;
  auto operator<=>(const Endpoint&) const = default;  // NOLINT(modernize-use-nullptr): there is no pointer
};

// A descriptor, or -1 and errno.
// The connection comes later, or its failure. source: of the same family; none: as the kernel chooses.
int DialSocket(Descriptors* descriptors, const Endpoint& to, const std::optional<Endpoint>& source = std::nullopt);
int ListenSocket(Descriptors* descriptors, const Endpoint& at);  // SO_REUSEADDR; of Any both families if there are
int AcceptSocket(Descriptors* descriptors, int listener, Endpoint* from);

std::optional<Endpoint> LocalOf(int fd);
std::optional<Endpoint> RemoteOf(int fd);
// Is this address one of this node's interfaces'?
bool IsOwn(const Endpoint& endpoint);
// The first of them whose `bits` first bits are those of the network.
std::optional<Endpoint> OwnIn(const Endpoint& network, int bits);
int PendingError(int fd);  // of a connection that was being made; 0 none

}  // namespace ncclwatch::exchange
