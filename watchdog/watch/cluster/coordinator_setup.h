// Whether this node has anybody to exchange with, where they meet, and by which tokens they know one another.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "watchdog/exchange/protocol/exchange.h"
#include "watchdog/exchange/rendezvous/token_search.h"
#include "watchdog/watch/base/context.h"

namespace ncclwatch::watch {

// Which tokens this leader has. What lies in files is looked for in a thread beside: a file system of the network may
// answer late, or never.

using exchange::FindTokens;
using exchange::FoundTokens;
using exchange::TokenRequest;

class TokenSearch {
 public:
  explicit TokenSearch(const TokenRequest& request);
  // None as long as it is not known.
  std::optional<FoundTokens> Found() const;

 private:
  struct State;
  std::shared_ptr<State> state_;  // with its thread
};

struct Plan {
  exchange::Setup setup;  // without tokens yet
  TokenRequest request;
};

// None: the job has one node, or the exchange is switched off, or its address makes no sense, or strangers would be
// taken for nodes of this job: both are said in the log. An address of kind kNone: the launcher does not tell where the
// nodes meet; ids may, once communicators are made.
std::optional<Plan> SetupFor(const Context& context, std::uint32_t generation,
                             const std::vector<std::string>& environment);

// Of the ids that this process has used: where the nodes meet, if nothing else tells.
void AskIds(exchange::Setup* setup);

// With a secret of the user's there is no other token. Else the strongest first: what was found, those of the ids that
// this process has used, and the guessable one of the job. None: there is nothing that strangers do not have too.
void PutTokens(const Plan& plan, const FoundTokens& found, const std::vector<std::string>& environment,
               exchange::Setup* setup);

}  // namespace ncclwatch::watch
