// Where this leader listens, and from which address it calls: what NCCLWATCH_BIND says.
#pragma once

#include <optional>
#include <string>

#include "watchdog/exchange/net/endpoint.h"
#include "watchdog/settings/bind_address.h"

namespace ncclwatch::exchange {

class ListenPlace {
 public:
  explicit ListenPlace(const settings::BindAddress& bind);

  // None: no interface of this node has the address (yet).
  std::optional<Endpoint> At(std::uint16_t port);
  // Called from there, a leader is known to its peers by an address at which it listens. None: any address will do.
  std::optional<Endpoint> Source(const Endpoint& to);
  // Who calls this address of this node reaches a socket that listens here.
  bool Reaches(const Endpoint& own);

  const settings::BindAddress& bind() const { return bind_; }
  std::string ToText() const;  // of the address, for people

 private:
  const settings::BindAddress bind_;
  std::optional<Endpoint> found_;
};

}  // namespace ncclwatch::exchange
