// A member's connection to its hub. One thread.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "watchdog/exchange/protocol/adaptive_timeout.h"
#include "watchdog/exchange/protocol/clock_filter.h"
#include "watchdog/exchange/protocol/wire.h"
#include "watchdog/exchange/tcp/connection.h"
#include "watchdog/exchange/tcp/context.h"

namespace ncclwatch::exchange {

class Uplink final : public Connection::Owner {
 public:
  class Handler {
   public:
    virtual ~Handler() = default;
    // elsewhere: the hub gives way to that one. May destroy the uplink.
    virtual void OnHubLost(Uplink* uplink, const std::string& why, const std::optional<Redirect>& elsewhere) = 0;
    // Nothing has come for too long; and something has come after all. The connection stays meanwhile: where packets
    // are lost, what is on its way arrives sooner than a new connection is made.
    virtual void OnHubSilent(Uplink* uplink) = 0;
    virtual void OnHubHeard(Uplink* uplink) = 0;
    virtual void OnSuccessionList(const SuccessionList& list) = 0;
  };

  // before: with the hub before, if there was one.
  Uplink(TcpContext* context, Handler* handler, std::unique_ptr<Connection> connection, const Welcome& welcome,
         const std::optional<AdaptiveTimeout>& before = std::nullopt);
  ~Uplink() override;

  bool HasRoom() const;
  void Send(const Outgoing& outgoing);
  void Tick(std::int64_t now_ns);  // may lose the hub, and destroy this
  std::int64_t Due_ns() const { return next_ping_ns_; }
  void SayLeave();
  bool Idle() const { return connection_->idle(); }
  const AdaptiveTimeout& patience() const { return patience_; }

  std::uint64_t term() const { return term_; }
  const Welcome& welcome() const { return welcome_; }
  Endpoint at() const { return connection_->remote(); }                       // as it was called
  Endpoint hub() const { return connection_->remote().With(welcome_.port); }  // where it listens
  bool guessable() const { return connection_->guessable(); }
  Peer HubPeer(std::int64_t now_ns) const;

 private:
  void OnProven(Connection*) override {}
  void OnFrame(Connection* connection, Frame frame) override;
  void OnEnd(Connection*, const std::string& why) override { handler_->OnHubLost(this, why, std::nullopt); }
  void OnMessage(const Frame& frame);
  void OnPong(const Pong& pong);

  TcpContext* const context_;
  Handler* const handler_;
  std::unique_ptr<Connection> connection_;
  const Welcome welcome_;
  std::uint64_t term_;
  std::int64_t ping_ns_;
  std::int64_t next_ping_ns_ = 0;
  AdaptiveTimeout patience_;
  bool said_leave_ = false, silent_ = false;
  ClockFilter clock_;
};

}  // namespace ncclwatch::exchange
