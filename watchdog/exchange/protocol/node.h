// One leader's end of the exchange, driven by the thread of its Loop.
#pragma once

#include <cstdint>
#include <memory>

#include "watchdog/exchange/net/loop.h"
#include "watchdog/exchange/protocol/exchange.h"
#include "watchdog/exchange/protocol/mailbox.h"

namespace ncclwatch::exchange {

class Node {
 public:
  virtual ~Node() = default;
  // Does what is due: to be called after every Loop::Wait and when something was put into the mailbox.
  virtual void Tick(std::int64_t now_ns) = 0;
  virtual std::int64_t Due_ns() const = 0;  // the latest instant for the next Tick
  // Says good-bye; from then on Tick only sends what waits.
  virtual void Leave(std::int64_t now_ns) = 0;
  virtual bool Idle() const = 0;  // nothing waits to be sent
};

std::unique_ptr<Node> MakeTcpNode(const Setup& setup, Loop* loop, Mailbox* mailbox);
// Null and a reason: this build has no Redis.
std::unique_ptr<Node> MakeRedisNode(const Setup& setup, Loop* loop, Mailbox* mailbox, std::string* why);

}  // namespace ncclwatch::exchange
