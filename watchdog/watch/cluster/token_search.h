// Which tokens this leader has. What lies in files is looked for in a thread beside: a file system of the network may
// answer late, or never.
#pragma once

#include <memory>
#include <optional>

#include "watchdog/exchange/rendezvous/token_search.h"

namespace ncclwatch::watch {

using exchange::FindTokens;
using exchange::FoundTokens;
using exchange::TokenWish;

class TokenSearch {
 public:
  explicit TokenSearch(const TokenWish& wish);
  // None as long as it is not known.
  std::optional<FoundTokens> Found() const;

 private:
  struct State;
  std::shared_ptr<State> state_;  // with its thread
};

}  // namespace ncclwatch::watch
