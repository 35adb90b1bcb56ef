// The hub's place among leaders who meet in Redis: a key that expires. Whoever sets it is the hub while it renews it;
// a hub that could not renew it in time is none any more, by its own clock. One thread.
#pragma once

#include <optional>
#include <string>

#include "watchdog/exchange/protocol/context.h"
#include "watchdog/exchange/redis/authenticator.h"
#include "watchdog/exchange/redis/link.h"
#include "watchdog/exchange/redis/roster.h"

namespace ncclwatch::exchange {

class Lease {
 public:
  struct Hub {
    std::string node;
    std::uint64_t incarnation = 0;
    std::uint64_t term = 0;
    std::uint32_t ping_ms = 0;
    Presence presence;
    std::int64_t heard_ns = 0;  // its renewal was seen last
  };
  class Handler {
   public:
    virtual ~Handler() = default;
    virtual Note NewNote(std::uint16_t type, const std::string& channel, std::string body) = 0;
    virtual std::int64_t ServerMs(std::int64_t now_ns) const = 0;
    virtual Presence OwnPresence(std::int64_t now_ns) const = 0;
    virtual std::uint32_t PingMs() const = 0;
    virtual void OnHubChanged() = 0;  // hub() or mine() is another
  };

  Lease(Context* context, const MessageAuthenticator* seal, std::string key, Handler* handler)
      : context_(context), seal_(seal), key_(std::move(key)), handler_(handler) {}

  // Asks who is hub, renews our own, or tries to become it.
  void Beat(RedisLink* link);
  void Tick(std::int64_t now_ns);  // the own one may be over
  void GiveBack(RedisLink* link);

  bool mine() const { return mine_; }
  const std::optional<Hub>& hub() const { return hub_; }  // other than us
  std::uint64_t term() const { return term_; }

 private:
  std::string NewValue(std::int64_t now_ns, std::uint64_t term);
  std::int64_t Length_ms() const;
  void OnValue(RedisLink* link, const Reply& reply);
  void OnAbsent(RedisLink* link);
  void Replace(RedisLink* link, const std::string& old);
  void Take(RedisLink* link);
  void Won(std::int64_t asked_ns, std::string value, std::uint64_t term);
  void Lost();
  std::optional<Hub> Read(const std::string& value) const;

  Context* const context_;
  const MessageAuthenticator* const seal_;
  const std::string key_;
  Handler* const handler_;
  bool mine_ = false;
  bool was_mine_ = false;  // it was lost to nobody: with the server
  std::string value_;      // as it was read or written last
  std::int64_t until_ns_ = 0;
  std::int64_t absent_since_ns_ = 0, say_again_ns_ = 0;
  bool had_hub_ = false;
  std::optional<Hub> hub_;
  std::uint64_t term_ = 0;
};

}  // namespace ncclwatch::exchange
