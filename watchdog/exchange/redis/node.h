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
#include "watchdog/exchange/redis/lease.h"
#include "watchdog/exchange/redis/link.h"
#include "watchdog/exchange/redis/roster.h"

namespace ncclwatch::exchange {

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
