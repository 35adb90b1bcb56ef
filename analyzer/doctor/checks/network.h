// Addresses of this host.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "analyzer/doctor/checks/machine.h"

namespace ncclwatch::doctor {

struct Interface {
  std::string name, address;
};
std::vector<Interface> Interfaces();  // that are up, each address once; not the loopback
// Numbers that a name means; empty: *why_not says.
std::vector<std::string> AddressesOf(const std::string& name, std::string* why_not);
std::map<std::string, std::string> PacketSizes(const Machine& machine);  // MTU by interface

}  // namespace ncclwatch::doctor
