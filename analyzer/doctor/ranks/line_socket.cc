#include "analyzer/doctor/ranks/line_socket.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "analyzer/console/units.h"

namespace ncclwatch::doctor {
namespace {

using analyzer::MonotonicNow;

constexpr std::int64_t kMilli = 1'000'000;
constexpr std::size_t kMostLine = 16u << 20;
constexpr std::int64_t kSend_ns = 5'000'000'000;

// Until it can be read, or written.
bool Await(int fd, short what, std::int64_t until_ns) {
  while (true) {
    const std::int64_t left = until_ns - MonotonicNow();
    if (left <= 0) return errno = ETIMEDOUT, false;
    pollfd one{fd, what, 0};
    const int status = poll(&one, 1, static_cast<int>(std::max<std::int64_t>(1, left / kMilli)));
    if (status > 0) return true;
    if (status < 0 && errno != EINTR) return false;
  }
}

Socket ConnectTo(const addrinfo& to, std::int64_t until_ns) {
  Socket socket(::socket(to.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return Socket();
  const int on = 1;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (connect(socket.get(), to.ai_addr, to.ai_addrlen) == 0) return socket;
  if (errno != EINPROGRESS || !Await(socket.get(), POLLOUT, until_ns)) return Socket();
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return errno = error, Socket();
  return socket;
}

}  // namespace

Socket::~Socket() {
  if (fd_ >= 0) close(fd_);
}

Socket Connect(const std::string& host, std::uint16_t port, std::int64_t limit_ns) {
  addrinfo hints{}, *all = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &all) != 0) return errno = EHOSTUNREACH, Socket();
  Socket socket;
  const std::int64_t until = MonotonicNow() + limit_ns;
  for (const addrinfo* one = all; one != nullptr && !socket; one = one->ai_next) socket = ConnectTo(*one, until);
  const int error = errno;
  freeaddrinfo(all);
  errno = error;
  return socket;
}

Socket Listen(std::uint16_t port) {
  for (const int family : {AF_INET6, AF_INET}) {
    Socket socket(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!socket) continue;
    const int on = 1, off = 0;
    setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in6 six{};
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(port);
    sockaddr_in four{};
    four.sin_family = AF_INET;
    four.sin_port = htons(port);
    if (family == AF_INET6) setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    const auto* const address =
        family == AF_INET6 ? reinterpret_cast<const sockaddr*>(&six) : reinterpret_cast<const sockaddr*>(&four);
    const socklen_t size = family == AF_INET6 ? sizeof six : sizeof four;
    constexpr int kBacklog = 4096;
    if (bind(socket.get(), address, size) == 0 && listen(socket.get(), kBacklog) == 0) return socket;
  }
  return Socket();
}

std::uint16_t PortOf(const Socket& socket) {
  sockaddr_storage at{};
  socklen_t size = sizeof at;
  getsockname(socket.get(), reinterpret_cast<sockaddr*>(&at), &size);
  return ntohs(at.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&at)->sin6_port
                                        : reinterpret_cast<sockaddr_in*>(&at)->sin_port);
}

std::string PeerOf(const Socket& socket) {
  sockaddr_storage at{};
  socklen_t size = sizeof at;
  std::array<char, NI_MAXHOST> text{};
  if (getpeername(socket.get(), reinterpret_cast<sockaddr*>(&at), &size) != 0 ||
      getnameinfo(reinterpret_cast<sockaddr*>(&at), size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0)
    return "";
  const std::string address = text.data();
  constexpr std::string_view kMapped = "::ffff:";
  return address.starts_with(kMapped) ? address.substr(kMapped.size()) : address;
}

Socket Accept(const Socket& listener, std::int64_t limit_ns) {
  if (!Await(listener.get(), POLLIN, MonotonicNow() + limit_ns)) return Socket();
  Socket socket(accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  const int on = 1;
  if (socket) setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return socket;
}

bool SendAll(const Socket& socket, const void* bytes, std::size_t size, std::int64_t limit_ns) {
  const std::int64_t until = MonotonicNow() + limit_ns;
  const char* from = static_cast<const char*>(bytes);
  while (size > 0) {
    const ssize_t sent = send(socket.get(), from, size, MSG_NOSIGNAL);
    if (sent > 0)
      from += sent, size -= static_cast<std::size_t>(sent);
    else if (sent < 0 && errno != EAGAIN && errno != EINTR)
      return false;
    else if (!Await(socket.get(), POLLOUT, until))
      return false;
  }
  return true;
}

bool ReceiveAll(const Socket& socket, void* bytes, std::size_t size, std::int64_t limit_ns) {
  const std::int64_t until = MonotonicNow() + limit_ns;
  char* to = static_cast<char*>(bytes);
  while (size > 0) {
    const ssize_t count = recv(socket.get(), to, size, 0);
    if (count > 0)
      to += count, size -= static_cast<std::size_t>(count);
    else if (count == 0)
      return errno = ECONNRESET, false;
    else if (errno != EAGAIN && errno != EINTR)
      return false;
    else if (!Await(socket.get(), POLLIN, until))
      return false;
  }
  return true;
}

bool LineSocket::Send(const Json& message) {
  const std::string line = message.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  return SendAll(socket_, line.data(), line.size(), kSend_ns);
}

std::optional<Json> LineSocket::Receive(std::int64_t limit_ns) {
  const std::int64_t until = MonotonicNow() + limit_ns;
  std::array<char, 65536> block;
  while (true) {
    if (const std::size_t end = received_.find('\n'); end != std::string::npos) {
      Json message = Json::parse(received_.substr(0, end), nullptr, false);
      received_.erase(0, end + 1);
      return message.is_object() ? std::optional(std::move(message)) : std::nullopt;
    }
    if (received_.size() > kMostLine) return std::nullopt;
    const ssize_t count = recv(socket_.get(), block.data(), block.size(), 0);
    if (count > 0)
      received_.append(block.data(), static_cast<std::size_t>(count));
    else if (count == 0 || (errno != EAGAIN && errno != EINTR))
      return std::nullopt;
    else if (!Await(socket_.get(), POLLIN, until))
      return std::nullopt;
  }
}

}  // namespace ncclwatch::doctor
