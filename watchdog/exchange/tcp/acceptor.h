// Listening sockets, and those who come until they have proved the token and said who they are. A stranger, whatever it
// sends or does not send, costs a place among kMostPending for a while and its share of one line.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "watchdog/exchange/protocol/wire.h"
#include "watchdog/exchange/tcp/connection.h"
#include "watchdog/exchange/tcp/context.h"

namespace ncclwatch::exchange {

class Acceptor final : public Connection::Owner {
 public:
  class Handler {
   public:
    virtual ~Handler() = default;
    virtual void OnJoin(std::unique_ptr<Connection> connection, const Join& join) = 0;
  };
  static constexpr std::size_t kMostPending = 64;

  Acceptor(TcpContext* context, Handler* handler);
  ~Acceptor() override;

  // Where NCCLWATCH_BIND says, at that port (0: the kernel's choice). The port, or 0 and errno.
  std::uint16_t Listen(std::uint16_t port);
  // At a free port of those allowed; at one where leaders meet only if no other is free.
  std::uint16_t ListenAnywhere();
  bool ListensAt(std::uint16_t port) const;
  void Tick(std::int64_t now_ns);
  std::int64_t Due_ns() const;  // when Tick has something to do, INT64_MAX: never
  std::size_t pending() const { return pending_.size(); }

 private:
  class Door;

  void Open(Door* door);
  bool MakeRoom(std::int64_t now_ns);
  std::int64_t Limit_ns(const Connection& connection) const;
  void SetPaused(bool paused);
  void Drop(Connection* connection, const std::string& why);
  std::unique_ptr<Connection> Release(Connection* connection);
  void SayStrangers(std::int64_t now_ns);
  void OnProven(Connection*) override {}
  void OnFrame(Connection* connection, Frame frame) override;
  void OnEnd(Connection* connection, const std::string& why) override { Drop(connection, why); }

  TcpContext* const context_;
  Handler* const handler_;
  std::vector<std::unique_ptr<Door>> doors_;
  std::vector<std::unique_ptr<Connection>> pending_;  // oldest first
  bool paused_ = false;
  bool full_ = false;  // of descriptors, not of pending_
  bool full_said_ = false;
  std::int64_t paused_until_ns_ = 0;
  std::uint64_t strangers_ = 0;  // since the last line
  std::string last_stranger_;
  std::int64_t next_line_ns_ = 0, line_every_ns_ = 0;
};

}  // namespace ncclwatch::exchange
