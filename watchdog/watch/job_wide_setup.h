// Whether this node has anybody to exchange with, and where they meet.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "watchdog/exchange/exchange.h"
#include "watchdog/watch/context.h"

namespace ncclwatch::watch {

// None: the job has one node, or the exchange is switched off, or its address makes no sense, which is said in the log.
// An address of kind kNone: the launcher does not tell where the nodes meet; ids may, once communicators are made.
std::optional<exchange::Setup> SetupFor(const Context& context, std::uint32_t generation,
                                        const std::vector<std::string>& environment);

// Of the ids that this process has used: where the nodes meet, and tokens better than the launcher's. False: they do
// not tell.
bool AskIds(const std::vector<std::string>& environment, exchange::Setup* setup);

}  // namespace ncclwatch::watch
