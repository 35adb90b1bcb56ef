// The forms of NCCLWATCH_BIND: where leaders listen.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ncclwatch::settings {

struct BindAddress {
  std::string address;                // a number without brackets; empty: all addresses
  int prefix = -1;                    // bits, of a network: the node's address in it; -1: that address itself
  std::uint16_t first = 0, last = 0;  // ports; 0: any

  bool HasPorts() const { return first != 0; }
  bool operator==(const BindAddress&) const = default;
};

// "[address][:port[-port]]", IPv6 in brackets; a network ("10.1.0.0/16", "[fd00::/64]") stands for the address that a
// node has in it, so that one value serves all nodes. None: not one of these.
std::optional<BindAddress> ParseBind(std::string_view text);

// As the range allows it; the same on all nodes for the same range. 0 stays 0.
std::uint16_t InRange(const BindAddress& bind, std::uint16_t port);

}  // namespace ncclwatch::settings
