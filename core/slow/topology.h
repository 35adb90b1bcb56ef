// Which hosts lie behind which switch, as Slurm's topology.conf says it: "SwitchName=leaf1 Nodes=node[00-07]".
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace ncclwatch::diagnosis {

struct Switch {
  std::string name;
  std::set<std::string, std::less<>> hosts;  // behind it, those of the switches below included
};
using Topology = std::vector<Switch>;

// "node[00-02,07],login" spelled out. None: it is not such a list, or one of more than 100,000 names.
std::optional<std::vector<std::string>> HostsOfList(std::string_view list);

// What is no line of a switch is left out, as Slurm's other lines are. `wrong` gets the first line that is none though
// it seems to be one.
Topology ParseTopology(std::string_view text, std::string* wrong);

}  // namespace ncclwatch::diagnosis
