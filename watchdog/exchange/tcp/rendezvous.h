// The place where the leaders of a job meet at the start: the address that all were given. Whoever owns it listens
// there, as the hub or to say where the hub is.
#pragma once

#include <vector>

#include "watchdog/exchange/net/resolver.h"
#include "watchdog/exchange/tcp/acceptor.h"
#include "watchdog/exchange/tcp/context.h"

namespace ncclwatch::exchange {

class Rendezvous {
 public:
  Rendezvous(TcpContext* context, Acceptor* acceptor);

  // alone_ns: for how long this node has looked for a hub in vain, 0: it has one. Tries to listen if the place is ours;
  // after a while without a hub at the next port, should a stranger (or a stopped leader of this node) have this one.
  void Tick(std::int64_t now_ns, std::int64_t alone_ns);

  bool listening() const { return port_ != 0; }
  // Where others may be found.
  const std::vector<Endpoint>& others() const { return others_; }
  bool Includes(const Endpoint& endpoint) const;
  // Why there is nobody to be called, for people; empty: there is.
  std::string Trouble() const;

 private:
  bool IsOurs() const;
  void TryToListen(std::int64_t now_ns, std::int64_t alone_ns);
  void Update();
  void SayElsewhere(const Endpoint& called);

  TcpContext* const context_;
  Acceptor* const acceptor_;
  Resolver resolver_;
  std::vector<std::uint16_t> ports_;
  std::uint16_t port_ = 0;
  std::vector<Endpoint> all_, others_;
  bool own_ = false;  // one of the addresses is an interface's of this node
  std::int64_t looked_ns_ = 0, tried_ns_ = 0;
  int listen_error_ = 0;
  bool said_elsewhere_ = false;
};

}  // namespace ncclwatch::exchange
