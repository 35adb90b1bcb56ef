// A redis-server of the test's own, on a free port of loopback, that leaves nothing on disk.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "watchdog/exchange/redis/reply.h"

namespace ncclwatch::testing {

class RedisServer {
 public:
  static bool IsInstalled();
  // tls_files: a folder with ca.pem, server.pem and server.key; then it also listens with TLS, to those who have a
  // certificate if clients_too.
  explicit RedisServer(std::string password = "", std::string tls_files = "", bool clients_too = false);
  ~RedisServer();
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  std::uint16_t port() const { return port_; }
  std::uint16_t tls_port() const { return tls_port_; }
  pid_t pid() const { return pid_; }
  void Start();  // returns when it answers
  void Signal(int signal) const;
  void Kill();  // SIGKILL; what it held is lost
  // One command on a connection of its own; null: it does not answer.
  std::unique_ptr<exchange::Reply> Ask(const std::vector<std::string_view>& words) const;

 private:
  const std::uint16_t port_, tls_port_;
  const std::string password_, tls_files_;
  const bool clients_too_;
  pid_t pid_ = -1;
};

}  // namespace ncclwatch::testing
