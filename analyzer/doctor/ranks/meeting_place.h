// Where the ranks of a job meet, and by what they know one another.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "watchdog/exchange/protocol/exchange.h"
#include "watchdog/rundir/launcher.h"
#include "watchdog/settings/settings.h"

namespace ncclwatch::doctor {

struct MeetingPlace {
  std::vector<std::string> hosts;
  std::vector<std::uint16_t> ports;
  std::string source;                   // "MASTER_ADDR"
  std::string refused;                  // the ranks are not to meet, and why; empty otherwise
  std::vector<exchange::Token> tokens;  // the best first
  settings::BindAddress bind;           // where each rank listens, and from where it calls
  bool one_host = false;                // all ranks are on this host
};
// `named`: HOST:PORT, or empty. May wait for the file system that holds the secret.
MeetingPlace PlaceOf(const rundir::Lookup& lookup, const settings::Settings& settings, const std::string& named);

}  // namespace ncclwatch::doctor
