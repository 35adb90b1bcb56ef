#include "watchdog/evidence/topology_file.h"

#include <cstring>

#include "core/text/printable.h"
#include "watchdog/settings/plain_file.h"

namespace ncclwatch::evidence {

diagnosis::Topology ReadTopology(const std::string& path, std::string* wrong) {
  constexpr std::size_t kMostBytes = 16 << 20;
  const settings::PlainFile file = settings::ReadPlain(path.c_str(), kMostBytes, true);
  if (file.error != 0) {
    *wrong = path + ": " + std::strerror(file.error);
    return {};
  }
  std::string line;
  diagnosis::Topology topology = diagnosis::ParseTopology(file.text, &line);
  if (!line.empty())
    *wrong = path + ": not understood: " + Printable(line);
  else if (topology.empty())
    *wrong = path + ": no line SwitchName=... in it";
  return topology;
}

}  // namespace ncclwatch::evidence
