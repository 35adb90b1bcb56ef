#include "watchdog/act/collector.h"

#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <utility>

#include "watchdog/act/program.h"
#include "watchdog/act/thread.h"

namespace ncclwatch::act {
namespace {

constexpr int kMostStarts = 100;
constexpr long kTmpfs = 0x01021994, kRamfs = 0x858458f6;

std::string PresentDirectory() {
  char* const path = getcwd(nullptr, 0);
  if (!path) return {};
  std::string directory = path;
  free(path);
  struct statfs system {};
  const bool in_memory = statfs(directory.c_str(), &system) != 0 || static_cast<long>(system.f_type) == kTmpfs ||
                         static_cast<long>(system.f_type) == kRamfs;
  return in_memory ? std::string() : directory;
}

void Run(const CollectorStart& start) {
  Program program;
  program.arguments = {start.command, "collect", "--quiet", "--to", start.to};
  if (start.most_bytes != 0)
    program.arguments.insert(program.arguments.end(), {"--max", std::to_string(start.most_bytes)});
  program.arguments.push_back(start.run_directory);
  program.environment = WithoutLoader(start.environment);
  program.grace_ms = 1;  // a session of its own
  for (int starts = 0; starts < kMostStarts; ++starts) {
    const Outcome outcome = RunProgram(program);
    if (outcome.error != 0)
      return start.complain("calls are not recorded: " + start.command + ": " + std::strerror(outcome.error));
    if (!WIFSIGNALED(outcome.status)) return;
  }
  start.complain("calls are not recorded any more: the collector was killed too often");
}

}  // namespace

std::string CollectorPlace(const std::string& named, const std::string& out, const std::string& job,
                           const std::string& run_directory) {
  std::string place = named;
  if (place.empty()) {
    place = out.empty() ? PresentDirectory() : out;
    if (place.empty()) return place;
    place += "/ncclwatch-" + job;
  }
  const std::string leaf = run_directory.substr(run_directory.rfind('/') + 1);
  return leaf.starts_with("attempt-") || leaf.starts_with("run-") ? place + "/" + leaf : place;
}

bool StartCollector(CollectorStart start) {
  return StartThread("ncclwatch-trace", [start = std::move(start)] { Run(start); });
}

}  // namespace ncclwatch::act
