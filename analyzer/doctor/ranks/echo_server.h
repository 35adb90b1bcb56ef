// Answers other ranks that try this one: what they send comes back, or is swallowed and counted.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "analyzer/doctor/ranks/line_socket.h"

namespace ncclwatch::doctor {

class EchoServer {
 public:
  EchoServer();
  ~EchoServer();
  std::uint16_t port() const { return port_; }

 private:
  void Run();
  Socket listener_;
  std::uint16_t port_ = 0;
  std::atomic<bool> ends_{false};
  std::thread thread_;
};

struct Trial {
  std::string error;  // empty: it went well
  double round_trip_s = 0;
  double bytes_per_s = 0;  // 0: not measured
};
// The smallest of a few round trips of `size` bytes; then so many bytes one way.
Trial Try(const std::string& address, std::uint16_t port, std::size_t size, std::uint64_t bytes);

}  // namespace ncclwatch::doctor
