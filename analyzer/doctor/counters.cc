#include "analyzer/doctor/counters/save.h"

#include <fmt/core.h>
#include <time.h>
#include <unistd.h>

#include "analyzer/doctor/checks/network.h"
#include "analyzer/doctor/counters/compare.h"
#include "analyzer/doctor/counters/read.h"
#include "watchdog/act/files.h"
#include "watchdog/descriptors/directory.h"

namespace ncclwatch::doctor {

std::string SaveCounters(const Machine& machine, const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  const descriptors::Directory directory = descriptors::Directory::Named(folder);
  if (!directory) return directory.reason();
  reader::MachineLook look = reader::ReadMachine(directory, name).value_or(reader::MachineLook());
  look.host = HostName();
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  const std::int64_t now_ns = now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec;
  TakeLook(ReadFigures(machine, now_ns), now_ns, &look);
  return act::WriteFile(directory, name, reader::Format(look, /*with_figures=*/true));
}

}  // namespace ncclwatch::doctor
