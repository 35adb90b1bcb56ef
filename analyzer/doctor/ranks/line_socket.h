// A TCP connection on which both sides say JSON, a line each.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

namespace ncclwatch::doctor {

using Json = nlohmann::ordered_json;

class Socket {  // a descriptor
 public:
  explicit Socket(int fd = -1) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket();
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_;
};

// None and errno. The name may be a number. `limit_ns`: how long it may take.
Socket Connect(const std::string& host, std::uint16_t port, std::int64_t limit_ns);
Socket Listen(std::uint16_t port);  // on all addresses; 0: any port
std::uint16_t PortOf(const Socket& socket);
std::string PeerOf(const Socket& socket);  // the address at the other end
Socket Accept(const Socket& listener, std::int64_t limit_ns);
// All of them, in time; false: the other side is gone or silent.
bool SendAll(const Socket& socket, const void* bytes, std::size_t size, std::int64_t limit_ns);
bool ReceiveAll(const Socket& socket, void* bytes, std::size_t size, std::int64_t limit_ns);

class LineSocket {
 public:
  explicit LineSocket(Socket socket) : socket_(std::move(socket)) {}
  bool Send(const Json& message);
  std::optional<Json> Receive(std::int64_t limit_ns);  // none: nothing in time, or nothing that is JSON
  const Socket& socket() const { return socket_; }

 private:
  Socket socket_;
  std::string received_;
};

}  // namespace ncclwatch::doctor
