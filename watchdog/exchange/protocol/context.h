// What the parts of one endpoint share. One thread.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <utility>

#include "watchdog/exchange/net/listen_place.h"
#include "watchdog/exchange/net/loop.h"
#include "watchdog/exchange/protocol/exchange.h"
#include "watchdog/exchange/protocol/mailbox.h"
#include "watchdog/exchange/protocol/session.h"

namespace ncclwatch::exchange {

struct Context {
  Context(const Setup& from, Loop* on, Mailbox* box)
      : setup(from), keys(from.tokens), place(from.bind), loop(on), mailbox(box) {}

  // A peer that nobody here can talk to. Said once.
  void SayVersion(const Endpoint& peer, const std::string& why) {
    if (std::exchange(said_version, true)) return;
    mailbox->Say(fmt::format("the node at {} {}: the two cannot exchange anything", peer.ToText(), why));
  }

  const Setup setup;
  const Keys keys;
  ListenPlace place;
  Loop* const loop;
  Mailbox* const mailbox;
  Counters counters;
  bool said_version = false;
  std::uint16_t port = 0;     // where this leader listens, 0: nowhere
  std::int64_t awake_ns = 0;  // since when this thread has run without a long pause
};

}  // namespace ncclwatch::exchange
