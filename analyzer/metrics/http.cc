#include "analyzer/metrics/http.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "watchdog/settings/bind_address.h"

namespace ncclwatch::analyzer {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kForOneClient(2000);
constexpr std::size_t kMostRequest = 8192;

union Address {
  sockaddr any;
  sockaddr_in v4;
  sockaddr_in6 v6;
};

std::optional<Address> AddressOf(const std::string& number, std::uint16_t port, socklen_t* size) {
  Address address{};
  if (inet_pton(AF_INET, number.c_str(), &address.v4.sin_addr) == 1) {
    address.v4.sin_family = AF_INET;
    address.v4.sin_port = htons(port);
    *size = sizeof address.v4;
    return address;
  }
  address = {};
  if (inet_pton(AF_INET6, number.c_str(), &address.v6.sin6_addr) != 1) return std::nullopt;
  address.v6.sin6_family = AF_INET6;
  address.v6.sin6_port = htons(port);
  *size = sizeof address.v6;
  return address;
}

// False: not in time.
bool Ready(int fd, short events, Clock::time_point until) {
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now());
    pollfd waiting{fd, events, 0};
    const int ready = poll(&waiting, 1, static_cast<int>(std::max<std::int64_t>(0, left.count())));
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

// The head of a request; empty: none came.
std::string ReadRequest(int fd, Clock::time_point until) {
  std::string request;
  while (request.find("\r\n\r\n") == request.npos) {
    char bytes[1024];
    if (request.size() > kMostRequest || !Ready(fd, POLLIN, until)) return {};
    const ssize_t got = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (got > 0)
      request.append(bytes, static_cast<std::size_t>(got));
    else if (got == 0 || (errno != EAGAIN && errno != EINTR))
      return {};
  }
  return request;
}

void Send(int fd, std::string_view text, Clock::time_point until) {
  while (!text.empty() && Ready(fd, POLLOUT, until)) {
    const ssize_t sent = send(fd, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent > 0)
      text.remove_prefix(static_cast<std::size_t>(sent));
    else if (sent == 0 || (errno != EAGAIN && errno != EINTR))
      return;
  }
}

std::string_view Reason(int status) {
  switch (status) {
    case 200: return "OK";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    default: return "Bad Request";
  }
}

HttpAnswer AnswerTo(std::string_view request, const std::function<HttpAnswer(std::string_view)>& answer) {
  const std::string_view line = request.substr(0, request.find("\r\n"));
  const std::size_t space = line.find(' ');
  const std::size_t end = space == line.npos ? line.npos : line.find(' ', space + 1);
  if (end == line.npos) return {.status = 400, .body = "not HTTP\n"};
  const std::string_view method = line.substr(0, space), target = line.substr(space + 1, end - space - 1);
  if (method != "GET" && method != "HEAD") return {.status = 405, .body = "GET alone\n"};
  HttpAnswer said = answer(target.substr(0, target.find('?')));
  if (method == "HEAD") said.body.clear();
  return said;
}

}  // namespace

absl::StatusOr<std::unique_ptr<HttpListener>> HttpListener::Open(std::string_view where) {
  const auto bind_to = settings::ParseBind(where);
  if (!bind_to || bind_to->prefix >= 0 || bind_to->first == 0 || bind_to->first != bind_to->last)
    return absl::InvalidArgumentError(fmt::format("'{}' is not [address]:port", where));
  socklen_t size = 0;
  const auto address = AddressOf(bind_to->address.empty() ? "127.0.0.1" : bind_to->address, bind_to->first, &size);
  if (!address) return absl::InvalidArgumentError(fmt::format("'{}' has no address in numbers", where));
  Descriptor socket(::socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  if (socket) setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (!socket || bind(socket.get(), &address->any, size) != 0 || listen(socket.get(), 16) != 0) {
    const std::string reason = fmt::format("{}: {}", where, std::strerror(errno));
    return errno == EADDRINUSE ? absl::AlreadyExistsError(reason) : absl::UnavailableError(reason);
  }
  return std::unique_ptr<HttpListener>(new HttpListener(std::move(socket)));
}

void HttpListener::ServeOne(std::chrono::milliseconds within,
                            const std::function<HttpAnswer(std::string_view path)>& answer) {
  if (!Ready(socket_.get(), POLLIN, Clock::now() + within)) return;
  const Descriptor client(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!client) return;
  const std::string request = ReadRequest(client.get(), Clock::now() + kForOneClient);
  if (request.empty()) return;
  const HttpAnswer said = AnswerTo(request, answer);
  Send(client.get(),
       fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", said.status,
                   Reason(said.status), said.type, said.body.size()) +
           said.body,
       Clock::now() + kForOneClient);
}

}  // namespace ncclwatch::analyzer
