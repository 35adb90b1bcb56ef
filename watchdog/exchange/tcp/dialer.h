// Calls at addresses where a hub may be: a member that looks for one, or a hub that looks whether there is another.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "watchdog/exchange/protocol/wire.h"
#include "watchdog/exchange/tcp/connection.h"
#include "watchdog/exchange/tcp/context.h"

namespace ncclwatch::exchange {

class Dialer final : public Connection::Owner {
 public:
  class Handler {
   public:
    virtual ~Handler() = default;
    virtual Join OwnJoin() = 0;
    virtual void OnWelcome(std::unique_ptr<Connection> connection, const Welcome& welcome) = 0;
    virtual void OnElsewhere(const Endpoint& from, const Redirect& elsewhere) = 0;
    virtual void OnYield(const Endpoint& from) = 0;
  };

  Dialer(TcpContext* context, Handler* handler) : context_(context), handler_(handler) {}

  // What is called from now on, the most promising first; what was called before keeps its pace. longest_ns: between
  // two calls at one address.
  void Aim(std::vector<Endpoint> targets, std::int64_t longest_ns);
  // That one at once.
  void Hurry(const Endpoint& target);
  void Stop();

  // It has taken a first call and not failed to answer it yet.
  bool Reaches(const Endpoint& target) const;

  void Tick(std::int64_t now_ns);
  std::int64_t Due_ns() const;
  const std::string& last_failure() const { return last_failure_; }

 private:
  struct Pace {
    std::int64_t next_ns = 0, wait_ns = 0;
    bool failed = false;  // once at least
  };
  static constexpr std::size_t kAtOnce = 8;

  bool Calling(const Endpoint& target) const;
  void Call(const Endpoint& target, std::int64_t now_ns);
  std::unique_ptr<Connection> Release(Connection* connection);
  void HangUp(Connection* connection);
  void Fail(Connection* connection, const std::string& why);
  std::int64_t Jittered(std::int64_t wait_ns);
  std::int64_t Limit_ns(const Connection& call) const;
  void OnProven(Connection* connection) override;
  void OnFrame(Connection* connection, Frame frame) override;
  void OnEnd(Connection* connection, const std::string& why) override;

  TcpContext* const context_;
  Handler* const handler_;
  std::vector<Endpoint> targets_;
  std::int64_t longest_ns_ = 0;
  std::map<Endpoint, Pace> paces_;
  std::vector<std::unique_ptr<Connection>> calls_;
  std::string last_failure_;
  std::uint32_t random_ = 1;
};

}  // namespace ncclwatch::exchange
