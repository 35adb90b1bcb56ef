// What the parts of an endpoint of TCP share. One thread.
#pragma once

#include "watchdog/exchange/protocol/context.h"
#include "watchdog/exchange/tcp/lingering_connections.h"

namespace ncclwatch::exchange {

struct TcpContext : Context {
  TcpContext(const Setup& from, Loop* on, Mailbox* box) : Context(from, on, box), lingering(on) {}

  LingeringConnections lingering;
};

}  // namespace ncclwatch::exchange
