// Where a job's leaders meet: what NCCLWATCH_EXCHANGE says, else what the launcher's environment tells.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "watchdog/exchange/protocol/exchange.h"
#include "watchdog/rundir/launcher.h"
#include "watchdog/settings/bind_address.h"

namespace ncclwatch::exchange {

// "tcp://host:port" or "redis://[[user]:password@]host[:port][/database]"; IPv6 in brackets; "rediss://", likewise.
// None and a reason, without the password, if it is neither.
std::optional<Address> ParseAddress(std::string_view text, std::string* why);

// The environment's: MASTER_ADDR, Slurm's, PMIx's, PMI's. Kind kNone: it tells none (then the unique id of the first
// communicator may, see unique_id.h). The port is PortOf(JobIdentity) in the range of `bind`, never MASTER_PORT itself.
Address AddressFromLauncher(const rundir::Lookup& lookup, const settings::BindAddress& bind = {});

// 20000 + a hash modulo 10000: below the ephemeral ports of Linux (from 32768), the same on all nodes. `which`: the
// next one where that is taken.
std::uint16_t PortOf(std::string_view job_identity, unsigned which = 0);
inline constexpr unsigned kPorts = 4;

// The first host of Slurm's compressed list: "gpu[003-010,12],login1" is "gpu003". Empty if it cannot be read.
std::string FirstOfNodeList(std::string_view list);

}  // namespace ncclwatch::exchange
