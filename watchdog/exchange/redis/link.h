// One connection to a Redis server, never waited for: commands go out as a pipeline, replies come back to what was
// given with the command. A server that does not answer in time has ended.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "watchdog/exchange/net/endpoint.h"
#include "watchdog/exchange/net/loop.h"
#include "watchdog/exchange/protocol/context.h"
#include "watchdog/exchange/redis/reply.h"
#include "watchdog/exchange/redis/tls.h"

namespace ncclwatch::exchange {

class RedisLink final : public Source {
 public:
  using Then = std::function<void(const Reply&)>;
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void OnReady(RedisLink* link) = 0;  // connected, and let in
    // Over: the server, the network, or a reply that did not come. The owner buries it.
    virtual void OnEnd(RedisLink* link, const std::string& why) = 0;
  };

  // Null: no descriptor, or refused at once. trust: outlives it; null: without TLS.
  static std::unique_ptr<RedisLink> Dial(Context* context, const Endpoint& to, const TlsTrust* trust, Owner* owner);
  ~RedisLink() override;
  void Close();

  // patience_ns: for the reply, beside what the server itself was asked to wait.
  void Command(const std::vector<std::string_view>& words, Then then, std::int64_t patience_ns = kPatience_ns);
  bool ready() const { return ready_; }
  std::size_t waiting() const { return out_.size() - gone_; }  // bytes
  bool Idle() const { return waiting() == 0 && expected_.empty(); }

  void Tick(std::int64_t now_ns);  // may end it
  std::int64_t Due_ns() const;

  void Ready(std::uint32_t events) override;
  void Flush() override;

 private:
  struct Expected {
    Then then;
    std::int64_t until_ns = 0;
  };
  static constexpr std::int64_t kPatience_ns = 2'000'000'000;

  RedisLink(Context* context, int fd, const TlsTrust* trust, Owner* owner);
  ssize_t Send(std::string_view bytes);
  ssize_t Receive(char* to, std::size_t most);
  void EndByError();
  void Watch();
  void LogIn();
  void Read();
  void End(const std::string& why);

  Context* const context_;
  int fd_;
  Owner* const owner_;
  bool connecting_ = true, ready_ = false, writing_ = true, flush_asked_ = false;
  std::string out_;
  std::size_t gone_ = 0;
  std::unique_ptr<TlsStream> tls_;  // null: without
  ReplyReader reader_;
  std::deque<Expected> expected_;
};

}  // namespace ncclwatch::exchange
