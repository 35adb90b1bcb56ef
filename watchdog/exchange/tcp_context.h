// What the parts of an endpoint of TCP share. One thread.
#pragma once

#include "watchdog/exchange/context.h"
#include "watchdog/exchange/parting.h"

namespace ncclwatch::exchange {

struct TcpContext : Context {
  TcpContext(const Setup& from, Loop* on, Mailbox* box) : Context(from, on, box), parting(on) {}

  Parting parting;
};

}  // namespace ncclwatch::exchange
