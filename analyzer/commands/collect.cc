// `ncclwatch collect`: the collector of one node.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <thread>

#include "analyzer/commands/options/options.h"
#include "analyzer/commands/table.h"
#include "analyzer/console/print.h"
#include "analyzer/console/units.h"
#include "analyzer/files/descriptor.h"
#include "analyzer/files/output_file.h"
#include "analyzer/jobs/locate.h"
#include "analyzer/jobs/signals.h"
#include "analyzer/recording/collector.h"

namespace ncclwatch::analyzer {
namespace {

constexpr char kCollectHelp[] =
    "Record every call of a live job on this node, for `trace`, `stats` and `replay`.\n\n"
    "Reads the black boxes of the run directory through shared memory and writes new calls as compressed segments.\n"
    "No process of the job waits for this one. If a ring overwrites calls before they are read, they are lost, and\n"
    "every reader reports how many; a larger --ring helps. At the end the black boxes are copied beside the\n"
    "segments. The command ends with the last rank of the node, or at SIGINT or SIGTERM.\n\n"
    "Exit status: 0 done, 1 calls were lost, 2 usage, 3 if a directory cannot be read or written.";

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kShortestPause(1), kLongestPause(40);  // between two looks
constexpr std::chrono::milliseconds kScanBoxes(100),
    kScanAtFirst(5);  // how often attempts are looked for, while a job begins
constexpr std::chrono::seconds kFirst(10);

// The job comes first: on a busy machine this process gets a tenth of a core, and the disk when nobody else wants it.
void GiveWay() {
  constexpr int kNice = 10, kIoprioWhoProcess = 1, kIoprioIdle = 3 << 13;
  setpriority(PRIO_PROCESS, 0, kNice);
  syscall(SYS_ioprio_set, kIoprioWhoProcess, 0, kIoprioIdle);
}

bool Locked(const std::string& directory, int how, Descriptor* held) {
  *held = Descriptor(open((directory + "/collector").c_str(), how | O_NOFOLLOW | O_NONBLOCK, 0600));
  return *held && flock(held->get(), LOCK_EX | LOCK_NB) != 0;
}

// One collector for a run directory: the launcher and each leader of the node start one. The one of a job is also that
// of its attempts. Where nothing can be written (another user's) nobody else is kept away.
bool AnotherCollects(const std::string& directory, Descriptor* held) {
  const std::filesystem::path path = std::filesystem::path(directory).lexically_normal();
  Descriptor above;
  const bool of_job = IsNested(path.filename().string()) && Locked(path.parent_path(), O_RDWR | O_CLOEXEC, &above);
  return of_job || Locked(directory, O_RDWR | O_CREAT | O_CLOEXEC, held);
}

// The collectors of a run directory and of the attempts in it, each with a folder of its own.
class Collectors {
 public:
  Collectors(std::string place, CollectorRequest request) : place_(std::move(place)), request_(std::move(request)) {}

  bool Look() {
    if (const Clock::time_point now = Clock::now(); now >= next_scan_) {
      next_scan_ = now + (Beginning() ? kScanAtFirst : kScanBoxes);
      for (const std::string& directory : BoxDirectories(place_)) Add(directory);
    }
    bool hurry = false;
    for (const auto& [directory, one] : collectors_) hurry = one->Look() || hurry;
    return hurry;
  }
  void Finish() {
    for (const auto& [directory, one] : collectors_) one->Finish();
  }
  // Nothing has been found yet, or not for long.
  bool Beginning() const { return collectors_.empty() || Clock::now() - found_ < kFirst; }
  bool seen_any() const { return Any(&Collector::seen_any); }
  bool any_alive() const { return Any(&Collector::any_alive); }
  std::uint64_t calls() const { return Sum(&Collector::calls); }
  std::uint64_t lost() const { return Sum(&Collector::lost); }

 private:
  void Add(const std::string& directory) {
    if (collectors_.contains(directory)) return;
    CollectorRequest request = request_;
    if (directory.size() > place_.size()) request.to += directory.substr(place_.size());
    if (const absl::Status made = MakeFolders(request.to); !made.ok())
      Complain("collect", "{}", std::string(made.message()));
    collectors_.emplace(directory, std::make_unique<Collector>(directory, request));
    found_ = Clock::now();
  }
  bool Any(bool (Collector::*asked)() const) const {
    return std::any_of(collectors_.begin(), collectors_.end(), [&](const auto& one) { return (*one.second.*asked)(); });
  }
  std::uint64_t Sum(std::uint64_t (Collector::*asked)() const) const {
    std::uint64_t sum = 0;
    for (const auto& [directory, one] : collectors_) sum += (*one.*asked)();
    return sum;
  }

  const std::string place_;
  const CollectorRequest request_;
  Clock::time_point next_scan_{}, found_{};
  std::map<std::string, std::unique_ptr<Collector>> collectors_;  // by directory
};

struct Patience {
  bool first = false;  // waits for a first process
  bool next = false;   // ... and for those of a next attempt, as long as the launcher lives that has started this one
};

void Follow(Collectors* collectors, Patience waits) {
  const pid_t launcher = getppid();
  std::chrono::milliseconds pause = kShortestPause;
  while (!Ended()) {
    const bool hurry = collectors->Look();
    const bool waits_on = (waits.next && getppid() == launcher) || (waits.first && !collectors->seen_any());
    if (!collectors->any_alive() && !waits_on) break;
    pause = hurry ? kShortestPause : std::min(collectors->Beginning() ? kScanAtFirst : kLongestPause, pause * 2);
    std::this_thread::sleep_for(pause);
  }
  collectors->Finish();
}

}  // namespace

int Collect(const Command& self, const Arguments& arguments) {
  Options options(self, kCollectHelp);
  std::string word, to, most;
  Patience waits;
  bool quiet = false;
  options.add_option("DIR", word, "run directory (default: the newest one)")->type_name("");
  options.add_option("--to", to, "directory of the segments (default: NCCLWATCH_TRACE_DIR, else ncclwatch-trace)")
      ->type_name("DIR");
  options.add_option("--max", most, "most bytes of segments, as in 10G: the oldest go first")->type_name("SIZE");
  options.add_flag("--wait", waits.first, "also if no process is there yet");
  options.add_flag("--stay", waits.next,
                   "for further attempts too, as long as the process lives that has started this one");
  options.add_flag("--quiet", quiet, "print nothing if no call was lost");
  if (const auto status = options.Read(arguments)) return *status;

  CollectorRequest request;
  if (!most.empty()) {
    const auto bytes = ParseBytes(most);
    if (!bytes) return UsageError(self, "--max takes a size like 10G, not '" + most + "'");
    request.most_bytes = *bytes;
  }
  const auto directory = LocateOne(word);
  if (!directory.ok()) return Unreadable(self, directory.status());
  const char* named = std::getenv("NCCLWATCH_TRACE_DIR");
  request.to = !to.empty() ? to : named && *named ? named : "ncclwatch-trace";
  if (const absl::Status made = MakeFolders(request.to); !made.ok()) return Unreadable(self, made);

  Descriptor held;
  if (AnotherCollects(*directory, &held)) {
    if (!quiet) Note("another collector is there already");
    return kDone;
  }
  GiveWay();
  CatchSignals();
  Collectors collector(*directory, request);
  Follow(&collector, waits);
  if (!quiet || collector.lost() != 0)
    Note("{} calls recorded in {}{}", collector.calls(), request.to,
         collector.lost() == 0 ? "" : fmt::format("; {} were lost", collector.lost()));
  return collector.lost() == 0 ? kDone : kProblem;
}

}  // namespace ncclwatch::analyzer
