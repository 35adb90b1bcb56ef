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

// Started again if it is killed. `lost`: what does not happen without it.
void Keep(Program program, const std::vector<std::string>& environment, const char* lost,
          const std::function<void(const std::string&)>& complain) {
  program.environment = WithoutLoader(environment);
  program.grace_ms = 1;  // a session of its own
  for (int starts = 0; starts < kMostStarts; ++starts) {
    const Outcome outcome = RunProgram(program);
    if (outcome.error != 0)
      return complain(std::string(lost) + ": " + program.arguments.front() + ": " + std::strerror(outcome.error));
    if (!WIFSIGNALED(outcome.status)) return;
  }
  complain(std::string(lost) + " any more: the process for it was killed too often");
}

void Record(const CollectorStart& start) {
  Program program;
  program.arguments = {start.command, "collect", "--quiet", "--to", start.to};
  if (start.most_bytes != 0)
    program.arguments.insert(program.arguments.end(), {"--max", std::to_string(start.most_bytes)});
  program.arguments.push_back(start.run_directory);
  Keep(std::move(program), start.environment, "calls are not recorded", start.complain);
}

void Serve(const MetricsStart& start) {
  Program program;
  const bool is_file = start.where.find('/') != std::string::npos;
  program.arguments = {start.command, "metrics", is_file ? "--textfile" : "--listen", start.where, start.run_directory};
  if (!is_file && !start.token_file.empty())
    program.arguments.insert(program.arguments.end(), {"--token-file", start.token_file});
  Keep(std::move(program), start.environment, "there are no metrics", start.complain);
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
  return StartThread("ncclwatch-trace", [start = std::move(start)] { Record(start); });
}

bool StartMetrics(MetricsStart start) {
  return StartThread("ncclwatch-prom", [start = std::move(start)] { Serve(start); });
}

}  // namespace ncclwatch::act
