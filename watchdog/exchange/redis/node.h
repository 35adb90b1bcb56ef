// One leader over Redis, for jobs that outgrow one hub's connections. Messages lie in streams that are bounded and
// expire: one for the hub, one for all, one for each node. Each leader has two connections, one to say and ask, one on
// which it waits for what comes. One thread.
//
// Where the server is gone nobody has a hub; leaders call it again, with pauses, and the hub before is the hub after.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "watchdog/exchange/net/resolver.h"
#include "watchdog/exchange/protocol/clock_filter.h"
#include "watchdog/exchange/protocol/context.h"
#include "watchdog/exchange/protocol/node.h"
#include "watchdog/exchange/redis/authenticator.h"
#include "watchdog/exchange/redis/link.h"
#include "watchdog/exchange/redis/roster.h"

namespace ncclwatch::exchange {

// The hub's place among leaders who meet in Redis: a key that expires. Whoever sets it is the hub while it renews it;
// a hub that could not renew it in time is none any more, by its own clock. One thread.

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

class RedisNode final : public Node, private RedisLink::Owner, private Lease::Handler {
 public:
  RedisNode(const Setup& setup, Loop* loop, Mailbox* mailbox);
  ~RedisNode() override;

  void Tick(std::int64_t now_ns) override;
  std::int64_t Due_ns() const override;
  void Leave(std::int64_t now_ns) override;
  bool Idle() const override;

 private:
  void Dial(std::int64_t now_ns);
  void DialListener();
  std::unique_ptr<RedisLink> Link(const Endpoint& to);
  void CloseBoth(std::int64_t now_ns, const std::string& why);
  bool Connected() const { return up_ && talk_ && talk_->ready(); }
  void Complain(std::int64_t now_ns, const std::string& what);

  void Beat(std::int64_t now_ns);
  void AskTime();
  void FindCursors();
  void ReadOn();
  void OnEntries(const Reply& reply);
  void OnEntry(const std::string& channel, const std::string& id, const Reply& fields, std::vector<std::string>* done);
  void OnNote(const Note& note, std::int64_t now_ns);
  void Put(const std::string& channel, std::uint16_t type, std::string body);
  void Expire(const std::string& channel, std::int64_t now_ns);
  void DrainMailbox();
  void Send(const Outgoing& outgoing);
  void LookAtMembers(std::int64_t now_ns);
  void Publish(std::int64_t now_ns);
  std::string Key(const std::string& channel) const { return prefix_ + channel; }
  std::string& Cursor(const std::string& channel);

  void OnReady(RedisLink* link) override;
  void OnEnd(RedisLink* link, const std::string& why) override;
  Note NewNote(std::uint16_t type, const std::string& channel, std::string body) override;
  std::int64_t ServerMs(std::int64_t now_ns) const override;
  Presence OwnPresence(std::int64_t now_ns) const override;
  std::uint32_t PingMs() const override;
  void OnHubChanged() override;

  Context context_;
  const std::string prefix_;
  const std::string own_channel_;
  Resolver resolver_;
  std::unique_ptr<TlsTrust> trust_;
  const MessageAuthenticator seal_;
  Replays replays_;
  Roster roster_;
  Lease lease_;
  ClockFilter clock_;  // the server's, against ours

  std::unique_ptr<RedisLink> talk_, listen_;
  bool up_ = false;        // both have been ready; `in` may be called anew while they are
  bool reading_ = false;   // the second one is
  std::size_t which_ = 0;  // of the server's addresses
  std::int64_t dial_again_ns_ = 0, wait_ns_ = 0, down_since_ns_;
  bool said_down_ = false, said_plain_ = false;
  std::string last_failure_;
  std::int64_t complain_again_ns_ = 0;

  std::string all_cursor_, own_cursor_, in_cursor_;  // ids of the last entries seen
  std::map<std::string, std::int64_t> expire_again_ns_;
  std::string hub_node_;  // as our users were told
  bool was_hub_ = false;  // likewise
  bool leaving_ = false;
  std::uint64_t number_ = 0;
  std::int64_t ticked_ns_ = 0, beat_ns_ = 0, peers_ns_ = 0, looked_ns_ = 0;
};

}  // namespace ncclwatch::exchange
