#include "analyzer/doctor/ranks/socket.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "analyzer/console/units.h"
#include "ncclwatch/nanoseconds.h"
#include "watchdog/exchange/net/listen_place.h"

namespace ncclwatch::doctor {
namespace {

using analyzer::MonotonicNow;
using exchange::Endpoint;

exchange::Descriptors& OwnDescriptors() {
  static exchange::Descriptors descriptors;
  return descriptors;
}

Socket ConnectTo(const Endpoint& to, const settings::BindAddress& bind, std::int64_t until_ns) {
  Socket socket(exchange::DialSocket(&OwnDescriptors(), to, exchange::ListenPlace(bind).Source(to)));
  if (!socket || !Await(socket, POLLOUT, until_ns)) return Socket();
  if (const int error = exchange::PendingError(socket.get()); error != 0) return errno = error, Socket();
  return socket;
}

}  // namespace

Socket::~Socket() {
  const int error = errno;
  OwnDescriptors().Close(fd_);
  errno = error;
}

bool Await(const Socket& socket, short what, std::int64_t until_ns) {
  while (true) {
    const std::int64_t left = until_ns - MonotonicNow();
    if (left <= 0) return errno = ETIMEDOUT, false;
    pollfd one{socket.get(), what, 0};
    const int status = poll(&one, 1, static_cast<int>(std::clamp<std::int64_t>(left / kMs, 1, 60'000)));
    if (status > 0) return true;
    if (status < 0 && errno != EINTR) return false;
  }
}

Socket Connect(const std::string& host, std::uint16_t port, const settings::BindAddress& bind, std::int64_t until_ns) {
  addrinfo hints{}, *all = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &all) != 0) return errno = EHOSTUNREACH, Socket();
  Socket socket;
  int error = EHOSTUNREACH;
  for (const addrinfo* one = all; one != nullptr && !socket; one = one->ai_next) {
    sockaddr_storage address{};
    std::copy_n(reinterpret_cast<const char*>(one->ai_addr), std::min<std::size_t>(one->ai_addrlen, sizeof address),
                reinterpret_cast<char*>(&address));
    const std::optional<Endpoint> to = Endpoint::Of(address);
    if (!to) continue;
    socket = ConnectTo(to->With(port), bind, until_ns);
    error = errno;
  }
  freeaddrinfo(all);
  errno = error;
  return socket;
}

Socket Listen(std::uint16_t port, const settings::BindAddress& bind) {
  exchange::ListenPlace place(bind);
  const auto listen_at = [&](std::uint16_t one) {
    const std::optional<Endpoint> at = place.At(one);
    if (!at) errno = EADDRNOTAVAIL;
    return Socket(at ? exchange::ListenSocket(&OwnDescriptors(), *at) : -1);
  };
  if (port != 0 || !bind.HasPorts()) return listen_at(port);
  Socket socket;
  for (unsigned one = bind.first; one <= bind.last && !socket; ++one)
    socket = listen_at(static_cast<std::uint16_t>(one));
  return socket;
}

Socket Accept(const Socket& listener) {
  Endpoint from;
  return Socket(exchange::AcceptSocket(&OwnDescriptors(), listener.get(), &from));
}

std::uint16_t PortOf(const Socket& socket) {
  const std::optional<Endpoint> local = exchange::LocalOf(socket.get());
  return local ? local->port : 0;
}

std::string AddressText(const Endpoint& endpoint) {
  const std::string text = endpoint.ToText();
  const std::string host = text.substr(0, text.rfind(':'));
  return host.starts_with('[') ? host.substr(1, host.size() - 2) : host;
}

std::string PeerOf(const Socket& socket) {
  const std::optional<Endpoint> remote = exchange::RemoteOf(socket.get());
  return remote ? AddressText(*remote) : "";
}

std::string OwnAddressIn(const settings::BindAddress& bind) {
  const std::optional<Endpoint> at = exchange::ListenPlace(bind).At(0);
  return at && !at->IsAny() ? AddressText(*at) : "";
}

bool SendAll(const Socket& socket, const void* bytes, std::size_t size, std::int64_t until_ns) {
  const char* from = static_cast<const char*>(bytes);
  while (size > 0) {
    if (MonotonicNow() >= until_ns) return errno = ETIMEDOUT, false;
    const ssize_t sent = send(socket.get(), from, size, MSG_NOSIGNAL);
    if (sent > 0)
      from += sent, size -= static_cast<std::size_t>(sent);
    else if (sent < 0 && errno != EAGAIN && errno != EINTR)
      return false;
    else if (!Await(socket, POLLOUT, until_ns))
      return false;
  }
  return true;
}

bool ReceiveAll(const Socket& socket, void* bytes, std::size_t size, std::int64_t until_ns) {
  char* to = static_cast<char*>(bytes);
  while (size > 0) {
    if (MonotonicNow() >= until_ns) return errno = ETIMEDOUT, false;
    const ssize_t count = recv(socket.get(), to, size, 0);
    if (count > 0)
      to += count, size -= static_cast<std::size_t>(count);
    else if (count == 0)
      return errno = ECONNRESET, false;
    else if (errno != EAGAIN && errno != EINTR)
      return false;
    else if (!Await(socket, POLLIN, until_ns))
      return false;
  }
  return true;
}

}  // namespace ncclwatch::doctor
