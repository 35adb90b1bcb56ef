#include "watchdog/exchange/net/endpoint.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace ncclwatch::exchange {
namespace {

constexpr std::array<std::uint8_t, 12> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
constexpr int kBacklog = 4096;  // the kernel takes what it allows

int Stream(Descriptors* descriptors, int family) {
  return descriptors->Keep(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

int Failed(Descriptors* descriptors, int fd) {
  const int error = errno;
  descriptors->Close(fd);
  errno = error;
  return -1;
}

#ifndef TCP_RTO_MAX_MS
#define TCP_RTO_MAX_MS 44  // Linux 6.15
#endif

// For short messages that are wanted soon. Where packets are lost their repetitions go on at one pace: waiting twice as
// long each time TCP would be silent for half a minute. Older kernels do so only while less than four packets are out.
void SetPace(int fd) {
  const int one = 1, longest_ms = 1000;
  setsockopt(fd, IPPROTO_TCP, TCP_RTO_MAX_MS, &longest_ms, sizeof(longest_ms));
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  setsockopt(fd, IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, &one, sizeof(one));
}

int ListenAt(Descriptors* descriptors, const Endpoint& at) {
  sockaddr_storage address{};
  const socklen_t length = at.To(&address);
  const int fd = Stream(descriptors, address.ss_family);
  if (fd < 0) return -1;
  const int one = 1, zero = 0;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
  if (address.ss_family == AF_INET6 && at.IsAny()) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), length) == 0 && listen(fd, kBacklog) == 0) return fd;
  return Failed(descriptors, fd);
}

// The first address of this node's interfaces that fits.
template <typename Fits>
std::optional<Endpoint> FindOwn(const Fits& fits) {
  ifaddrs* interfaces = nullptr;
  if (getifaddrs(&interfaces) != 0) return std::nullopt;
  std::optional<Endpoint> found;
  for (const ifaddrs* one = interfaces; one && !found; one = one->ifa_next) {
    if (!one->ifa_addr || (one->ifa_addr->sa_family != AF_INET && one->ifa_addr->sa_family != AF_INET6)) continue;
    sockaddr_storage address{};
    std::memcpy(&address, one->ifa_addr,
                one->ifa_addr->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    const std::optional<Endpoint> own = Endpoint::Of(address);
    if (own && fits(*own)) found = own->With(0);
  }
  freeifaddrs(interfaces);
  return found;
}

}  // namespace

std::optional<Endpoint> Endpoint::Parse(std::string_view number, std::uint16_t port) {
  const std::string text(number);
  Endpoint endpoint;
  endpoint.port = port;
  in_addr v4{};
  if (inet_pton(AF_INET, text.c_str(), &v4) == 1) {
    std::copy(kMapped.begin(), kMapped.end(), endpoint.address.begin());
    std::memcpy(endpoint.address.data() + 12, &v4, 4);
    return endpoint;
  }
  if (inet_pton(AF_INET6, text.c_str(), endpoint.address.data()) == 1) return endpoint;
  return std::nullopt;
}

std::optional<Endpoint> Endpoint::Of(const sockaddr_storage& from) {
  Endpoint endpoint;
  if (from.ss_family == AF_INET) {
    sockaddr_in in{};
    std::memcpy(&in, &from, sizeof(in));
    std::copy(kMapped.begin(), kMapped.end(), endpoint.address.begin());
    std::memcpy(endpoint.address.data() + 12, &in.sin_addr, 4);
    endpoint.port = ntohs(in.sin_port);
    return endpoint;
  }
  if (from.ss_family != AF_INET6) return std::nullopt;
  sockaddr_in6 in{};
  std::memcpy(&in, &from, sizeof(in));
  std::memcpy(endpoint.address.data(), &in.sin6_addr, 16);
  endpoint.port = ntohs(in.sin6_port);
  return endpoint;
}

Endpoint Endpoint::Any(std::uint16_t port) { return {{}, port}; }

bool Endpoint::IsV4() const { return std::equal(kMapped.begin(), kMapped.end(), address.begin()); }

bool Endpoint::IsAny() const {
  const std::size_t from = IsV4() ? 12 : 0;
  return std::all_of(address.begin() + from, address.end(), [](std::uint8_t byte) { return byte == 0; });
}

bool Endpoint::IsLoopback() const {
  if (IsV4()) return address[12] == 127;
  return address[15] == 1 &&
         std::all_of(address.begin(), address.end() - 1, [](std::uint8_t byte) { return byte == 0; });
}

socklen_t Endpoint::To(sockaddr_storage* to) const {
  *to = {};
  if (IsV4()) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(port);
    std::memcpy(&in.sin_addr, address.data() + 12, 4);
    std::memcpy(to, &in, sizeof(in));
    return sizeof(in);
  }
  sockaddr_in6 in{};
  in.sin6_family = AF_INET6;
  in.sin6_port = htons(port);
  std::memcpy(&in.sin6_addr, address.data(), 16);
  std::memcpy(to, &in, sizeof(in));
  return sizeof(in);
}

std::string Endpoint::ToText() const {
  char text[INET6_ADDRSTRLEN] = {};
  const bool v4 = IsV4();
  inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? address.data() + 12 : address.data(), text, sizeof(text));
  return v4 ? fmt::format("{}:{}", text, port) : fmt::format("[{}]:{}", text, port);
}

int DialSocket(Descriptors* descriptors, const Endpoint& to, const std::optional<Endpoint>& source) {
  sockaddr_storage address{};
  const socklen_t length = to.To(&address);
  const int fd = Stream(descriptors, address.ss_family);
  if (fd < 0) return -1;
  SetPace(fd);
  if (source) {
    sockaddr_storage from{};
    const socklen_t from_length = source->With(0).To(&from);
    const int one = 1;
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof(one));
    if (bind(fd, reinterpret_cast<const sockaddr*>(&from), from_length) != 0) return Failed(descriptors, fd);
  }
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), length) == 0 || errno == EINPROGRESS) return fd;
  return Failed(descriptors, fd);
}

int ListenSocket(Descriptors* descriptors, const Endpoint& at) {
  const int fd = ListenAt(descriptors, at);
  if (fd >= 0 || errno == EADDRINUSE || !at.IsAny() || at.IsV4()) return fd;
  return ListenAt(descriptors, *Endpoint::Parse("0.0.0.0", at.port));  // no IPv6 here
}

int AcceptSocket(Descriptors* descriptors, int listener, Endpoint* from) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  const int fd = accept4(listener, reinterpret_cast<sockaddr*>(&address), &length, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) return -1;
  SetPace(fd);
  *from = Endpoint::Of(address).value_or(Endpoint());
  return descriptors->Keep(fd);
}

std::optional<Endpoint> LocalOf(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) return std::nullopt;
  return Endpoint::Of(address);
}

std::optional<Endpoint> RemoteOf(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) return std::nullopt;
  return Endpoint::Of(address);
}

bool IsOwn(const Endpoint& endpoint) {
  if (endpoint.IsLoopback()) return true;
  // Not by trying to bind it: net.ipv4.ip_nonlocal_bind lets everybody bind everything.
  return FindOwn([&](const Endpoint& own) { return own.address == endpoint.address; }).has_value();
}

std::optional<Endpoint> OwnIn(const Endpoint& network, int bits) {
  return FindOwn([&](const Endpoint& own) {
    for (int bit = 0; bit < bits; ++bit) {
      const auto at = static_cast<std::size_t>(bit / 8);
      if (((own.address[at] ^ network.address[at]) >> (7 - bit % 8) & 1) != 0) return false;
    }
    return true;
  });
}

int PendingError(int fd) {
  int error = 0;
  socklen_t length = sizeof(error);
  return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? error : errno;
}

}  // namespace ncclwatch::exchange
