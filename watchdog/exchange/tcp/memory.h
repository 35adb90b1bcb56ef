// What a leader leaves its successor on the node: whom it knew. A new process on a node whose hub is gone finds the
// next one through it, and a hub's successor knows that it is one. Nothing secret is in it.
#pragma once

#include <optional>
#include <string>

#include "watchdog/descriptors/directory.h"
#include "watchdog/exchange/net/endpoint.h"
#include "watchdog/exchange/protocol/wire.h"

namespace ncclwatch::exchange {

struct Memory {
  bool was_hub = false;
  std::uint16_t port = 0;       // where it listened
  std::optional<Endpoint> hub;  // its hub, if it was not one
  std::string hub_node;
  SuccessionList succession;
  std::string Encode() const;
  static std::optional<Memory> Decode(std::string_view bytes);
};

// None: no such file, or it is not whole.
std::optional<Memory> Recall(const descriptors::Directory& directory, const std::string& name);
void Remember(const descriptors::Directory& directory, const std::string& name,
              const Memory& memory);  // as one file or not at all; a failure does not matter

}  // namespace ncclwatch::exchange
