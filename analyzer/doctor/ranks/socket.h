// TCP between ranks, with a limit of time for everything.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "watchdog/exchange/net/endpoint.h"
#include "watchdog/settings/bind_address.h"

namespace ncclwatch::doctor {

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

// Until it can be read, or written (POLLIN, POLLOUT). False: errno.
bool Await(const Socket& socket, short what, std::int64_t until_ns);

// None and errno. The name may be a number. `bind`: the address from which it calls.
Socket Connect(const std::string& host, std::uint16_t port, const settings::BindAddress& bind, std::int64_t until_ns);
// At the address of `bind`. Port 0: any that `bind` allows.
Socket Listen(std::uint16_t port, const settings::BindAddress& bind);
Socket Accept(const Socket& listener);  // who waits there; none and errno
std::uint16_t PortOf(const Socket& socket);
std::string PeerOf(const Socket& socket);                     // the address at the other end
std::string AddressText(const exchange::Endpoint& endpoint);  // without the port
std::string OwnAddressIn(const settings::BindAddress& bind);  // empty: it stands for all addresses, or for none

// All of them, in time; false: the other side is gone or silent.
bool SendAll(const Socket& socket, const void* bytes, std::size_t size, std::int64_t until_ns);
bool ReceiveAll(const Socket& socket, void* bytes, std::size_t size, std::int64_t until_ns);

}  // namespace ncclwatch::doctor
