// Connections that are given up while both processes live, for silence or for another hub. They say so and stay for a
// while, to be closed by the peer: a connection that just ended would look as if our process had.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "watchdog/exchange/tcp/connection.h"

namespace ncclwatch::exchange {

class LingeringConnections final : public Connection::Owner {
 public:
  explicit LingeringConnections(Loop* loop) : loop_(loop) {}
  ~LingeringConnections() override;

  void Take(std::unique_ptr<Connection> connection);
  void Tick(std::int64_t now_ns);

 private:
  struct One {
    std::unique_ptr<Connection> connection;
    std::int64_t until_ns = 0;
  };

  void OnProven(Connection*) override {}
  void OnFrame(Connection*, Frame) override {}
  void OnEnd(Connection* connection, const std::string& why) override;
  void Close(std::size_t index);

  Loop* const loop_;
  std::vector<One> all_;
};

}  // namespace ncclwatch::exchange
