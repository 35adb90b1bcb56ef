// `ncclwatch metrics`: a job's numbers for Prometheus.
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "analyzer/commands/options/options.h"
#include "analyzer/commands/table.h"
#include "analyzer/console/print.h"
#include "analyzer/files/descriptor.h"
#include "analyzer/files/output_file.h"
#include "analyzer/jobs/locate.h"
#include "analyzer/jobs/observe.h"
#include "analyzer/jobs/signals.h"
#include "analyzer/metrics/exposition.h"
#include "analyzer/metrics/http.h"
#include "analyzer/metrics/node_state.h"
#include "watchdog/evidence/topology_file.h"
#include "watchdog/exchange/rendezvous/token_file.h"

namespace ncclwatch::analyzer {
namespace {

using Clock = std::chrono::steady_clock;

constexpr char kMetricsHelp[] =
    "Print a job's numbers in Prometheus' text format, or serve them while the job runs.\n\n"
    "Series for each rank of this node: whether it is alive, its number of calls, how long its oldest call has\n"
    "waited. Series for the job: the time of a step and its parts, bandwidths, findings, and the program's own\n"
    "numbers. At most 300 series.\n\n"
    "--listen answers GET /metrics. --textfile writes a file every --interval seconds, for the textfile collector\n"
    "of node_exporter. Both end with the last rank of the node; --textfile then removes its file. NCCLWATCH_METRICS\n"
    "starts this command for a job.\n\n"
    "The file of --token-file must belong to the user or root and have mode 0600.\n\n"
    "Exit status: 0 done, 2 usage, 3 if no black box or no token can be read, or the file cannot be written.";

constexpr std::chrono::milliseconds kLook(200);  // for the end of the job
constexpr std::chrono::seconds kFresh(1);        // who asks again sooner gets the same
constexpr std::chrono::seconds kBindAgain(5);
constexpr unsigned kForAll = 0644;  // node_exporter is another user

// One for a run directory: each leader of the node starts one.
bool AnotherServes(const std::string& directory, Descriptor* held) {
  *held =
      Descriptor(open((directory + "/metrics").c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
  return *held && flock(held->get(), LOCK_EX | LOCK_NB) != 0;
}

class Source {
 public:
  explicit Source(std::string directory) : directory_(std::move(directory)) {
    const char* const path = std::getenv("NCCLWATCH_TOPOLOGY");
    std::string wrong;
    if (path && *path) topology_ = evidence::ReadTopology(path, &wrong);
    if (!wrong.empty()) Complain("metrics", "NCCLWATCH_TOPOLOGY: {}", wrong);
  }
  const std::string& Text() {
    const Clock::time_point now = Clock::now();
    if (!text_.empty() && now - made_ < kFresh) return text_;
    const NodeState state = ObserveNode(directory_, topology_);
    any_ = !state.ranks.empty();
    made_ = now;
    return text_ = Exposition(state);
  }
  bool any() const { return any_; }
  bool JobIsOver() const {
    const std::vector<std::string> boxes = BoxFiles(directory_);
    return std::none_of(boxes.begin(), boxes.end(), [](const std::string& path) { return LockHeld(path); });
  }

 private:
  const std::string directory_;
  diagnosis::Topology topology_;
  std::string text_;
  Clock::time_point made_{};
  bool any_ = false;
};

// Another job of this node may have the port: its end is waited for.
int Serve(const Command& self, const std::string& where, const std::string& token, Source* source) {
  const auto answer = [&](std::string_view path) -> HttpAnswer {
    if (path == "/metrics") return {.type = kExpositionType, .body = source->Text()};
    if (path == "/") return {.body = "ncclwatch: /metrics\n"};
    return {.status = 404, .body = "only /metrics is here\n"};
  };
  bool reported = false;
  auto server = HttpServer::Open(where, token, answer);
  while (!server.ok()) {
    if (absl::IsInvalidArgument(server.status())) return UsageError(self, std::string(server.status().message()));
    if (!std::exchange(reported, true))
      Complain("metrics", "{}; tried again every {} s", std::string(server.status().message()), kBindAgain.count());
    for (const Clock::time_point until = Clock::now() + kBindAgain; Clock::now() < until;) {
      if (Ended() || source->JobIsOver()) return kDone;
      std::this_thread::sleep_for(kLook);
    }
    server = HttpServer::Open(where, token, answer);
  }
  while (!Ended() && !source->JobIsOver()) (*server)->ServeFor(kLook);
  return kDone;
}

int WriteFiles(const std::string& path, std::chrono::milliseconds interval, Source* source) {
  while (!Ended()) {
    if (const absl::Status written = WriteFile(path, source->Text(), kForAll); !written.ok())
      return Unreadable(*FindCommand("metrics"), written);
    for (const Clock::time_point until = Clock::now() + interval; Clock::now() < until;) {
      if (Ended() || source->JobIsOver()) {
        std::remove(path.c_str());  // old numbers would be taken for new ones
        return kDone;
      }
      std::this_thread::sleep_for(kLook);
    }
  }
  std::remove(path.c_str());
  return kDone;
}

}  // namespace

int Metrics(const Command& self, const Arguments& arguments) {
  Options options(self, kMetricsHelp);
  std::string word, where, path, token_file;
  double interval_s = 15;
  options.add_option("DIR", word, "run directory (default: the newest one)")->type_name("");
  auto* const listen = options.add_option("--listen", where, "serve on it; without an address on 127.0.0.1 alone")
                           ->type_name("[ADDRESS]:PORT");
  options.add_option("--token-file", token_file, "requests need the token in it: Authorization: Bearer TOKEN")
      ->type_name("FILE")
      ->needs(listen);
  options.add_option("--textfile", path, "write this file again and again")->type_name("FILE")->excludes(listen);
  options.add_option("--interval", interval_s, "seconds between two times (default: 15)")
      ->type_name("S")
      ->check(CLI::Range(0.1, 3600.0));
  if (const auto status = options.Read(arguments)) return *status;
  const auto directory = LocateOne(word);
  if (!directory.ok()) return Unreadable(self, directory.status());
  exchange::Secret token;
  if (!token_file.empty()) token = exchange::ReadSecret(token_file);
  if (!token.why.empty()) return Unreadable(self, absl::PermissionDeniedError(token_file + ": " + token.why));
  CatchSignals();
  Source source(*directory);
  source.Text();
  if (!source.any()) return Unreadable(self, absl::NotFoundError(*directory + ": no black box in it"));
  if (where.empty() && path.empty()) {
    std::fputs(source.Text().c_str(), stdout);
    return kDone;
  }
  Descriptor held;
  if (AnotherServes(*directory, &held)) return kDone;
  constexpr int kNice = 10;  // the job comes first
  setpriority(PRIO_PROCESS, 0, kNice);
  if (!where.empty()) return Serve(self, where, token.text, &source);
  return WriteFiles(path, std::chrono::milliseconds(static_cast<std::int64_t>(interval_s * 1000)), &source);
}

}  // namespace ncclwatch::analyzer
