// The node's helpers, processes of their own that outlive their leader and the job: with NCCLWATCH_TRACE=full the
// collector, with NCCLWATCH_METRICS the one that Prometheus asks.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace ncclwatch::act {

struct CollectorStart {
  std::string command;        // `ncclwatch`
  std::string run_directory;  // of this attempt
  std::string to;             // directory of the segments
  std::uint64_t most_bytes = 0;
  std::vector<std::string> environment;
  std::function<void(const std::string&)> complain;  // called in another thread: nothing is recorded, and why
};

// Where segments go: the directory that was named, else `out`, else the present directory, in each case the last two
// with a folder for the job. A further attempt has a folder of its own in it, as in the run directory. Empty: the
// present directory is no place for them (in memory, or not known).
std::string CollectorPlace(const std::string& named, const std::string& out, const std::string& job,
                           const std::string& run_directory);

// Starts it, and again if it is killed, and waits for nothing. One that is there already goes on, and the new one ends.
// False if no thread could be made for that.
bool StartCollector(CollectorStart start);

struct MetricsStart {
  std::string command;        // `ncclwatch`
  std::string run_directory;  // of this attempt
  std::string where;          // "[address]:port", or the path of a file
  std::string token_file;     // of the requests' token, not for a file; empty: they need none
  std::vector<std::string> environment;
  std::function<void(const std::string&)> complain;  // as of the collector
};
// Likewise.
bool StartMetrics(MetricsStart start);

}  // namespace ncclwatch::act
