// Many node leaders in one program, on loopback. Node 0 is real: ranks with real watchdogs, one of which is the hub.
// The leaders of all other nodes are played: their exchanges, their summaries and their answers are those of the
// product, only the boxes that they tell of are made up. A healthy job first, whose cost at the hub is measured, then a
// fault on one rank of one node, and how long it takes until the hub's diagnosis names it.
//
//   nodes_leaders --leaders 1250 --ranks 8 --exchange tcp://127.0.0.1:29777 --fault killed|missing|mismatch
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "tests/nodes/played_leader.h"
#include "tests/unit/watch/fake_rank.h"
#include "watchdog/exchange/rendezvous/address.h"
#include "watchdog/watch/base/clock.h"

namespace {

using namespace ncclwatch;
using namespace ncclwatch::testing;

// Of a process: CPU seconds used so far, resident MiB.
std::pair<double, double> CostOf(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  text = text.substr(text.rfind(')') + 2);
  unsigned long user = 0, system = 0;
  long pages = 0;
  std::sscanf(text.c_str(), "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %*d %*d %*d %*d %*d %*d %*u %*u %ld",
              &user, &system, &pages);
  return {static_cast<double>(user + system) / static_cast<double>(sysconf(_SC_CLK_TCK)),
          static_cast<double>(pages) * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20)};
}

class Play {
 public:
  explicit Play(const Options& options) : options_(options) {}

  int Run() {
    StartNodeZero();
    std::string why;
    const std::optional<exchange::Address> address = exchange::ParseAddress(options_.exchange, &why);
    if (!address) return Fail(why);
    for (int number = 1; number < options_.leaders; ++number)
      leaders_.push_back(std::make_unique<PlayedLeader>(options_, *address, number));
    if (!Until([&] { return Connected() == leaders_.size(); }, 120))
      return Fail(std::to_string(Connected()) + " leaders are connected");
    std::printf("%zu played leaders are connected\n", leaders_.size());
    if (!Until([&] { return job_.lease().announced.load() == 1; }, 60)) return Fail("not said who is watched");
    std::printf("%s", job_.Said().c_str());
    Measure();
    return Break();
  }

 private:
  int Fail(const std::string& why) {
    std::printf("FAILED: %s\n%s\n", why.c_str(), job_.Said().c_str());
    return 1;
  }

  void StartNodeZero() {
    const int world = options_.leaders * options_.ranks;
    job_.settings.exchange = options_.exchange;
    job_.settings.token = kSecret;
    job_.settings.timeout_s = 2.0;
    for (int rank = 0; rank < options_.ranks; ++rank) {
      watch::FakeRank& one = job_.Add(rank, world);
      if (rank == 0) {
        watch::Eventually([&] { return job_.Leader() == &job_[0]; });
        // Over Redis the first to come is the hub, and this node's leader alone judges.
        std::this_thread::sleep_for(std::chrono::seconds(1));
      }
      one.MakeCommunicator(kWorld);
    }
  }

  std::size_t Connected() const {
    return static_cast<std::size_t>(
        std::count_if(leaders_.begin(), leaders_.end(), [](const auto& leader) { return leader->connected(); }));
  }

  // The job goes on, a tick at a time, until the condition holds.
  template <typename Condition>
  bool Until(Condition condition, double seconds) {
    const std::int64_t end_ns = watch::Monotonic() + static_cast<std::int64_t>(seconds * 1e9);
    while (!condition()) {
      if (watch::Monotonic() > end_ns) return false;
      Tick();
    }
    return true;
  }

  void Tick() {
    const std::int64_t now_ns = watch::Monotonic();
    if (!fault_.planted) {
      for (int step = 0; step < kStepsPerTick; ++step) job_.CallAll({Function::ncclAllReduce, kCount, kFloat32});
      entered_ += kStepsPerTick;
      newest_ns_ = now_ns;
    }
    for (const auto& leader : leaders_) leader->Tick(now_ns, entered_, newest_ns_, fault_.planted, fault_);
    const std::int64_t took_ns = watch::Monotonic() - now_ns;
    slowest_tick_ns_ = std::max(slowest_tick_ns_, took_ns);
    if (took_ns < kTick_ns) std::this_thread::sleep_for(std::chrono::nanoseconds(kTick_ns - took_ns));
  }

  void Measure() {
    Until([] { return false; }, 3);
    const auto [cpu, memory] = CostOf(job_[0].pid());
    const std::int64_t began_ns = watch::Monotonic();
    std::uint64_t bodies = 0, wire = 0, back = 0, answers = 0;
    for (const auto& leader : leaders_) {
      bodies -= leader->bytes();
      wire -= leader->wire_bytes();
      back -= leader->wire_bytes_in();
    }
    slowest_tick_ns_ = 0;
    Until([] { return false; }, options_.healthy_s);
    const double seconds = static_cast<double>(watch::Monotonic() - began_ns) / 1e9;
    const auto [cpu_after, memory_after] = CostOf(job_[0].pid());
    for (const auto& leader : leaders_) {
      bodies += leader->bytes();
      wire += leader->wire_bytes();
      back += leader->wire_bytes_in();
      answers += leader->answers();
    }
    const double nodes = static_cast<double>(leaders_.size());
    std::printf("healthy for %.0f s, %d ranks on %d nodes, 2 communicators and 20 calls/s each:\n", seconds,
                options_.leaders * options_.ranks, options_.leaders);
    std::printf("  summaries: %.0f bytes/s a node; on the wire %.0f to the hub, %.0f from it, a node and second\n",
                static_cast<double>(bodies) / seconds / nodes, static_cast<double>(wire) / seconds / nodes,
                static_cast<double>(back) / seconds / nodes);
    std::printf("  hub: %.1f %% of a core, %.0f MiB resident; %llu fetches\n", (cpu_after - cpu) / seconds * 100,
                memory_after, static_cast<unsigned long long>(answers));
    std::printf("  (the slowest round of all played leaders took %.0f ms)\n",
                static_cast<double>(slowest_tick_ns_) / 1e6);
    std::fflush(stdout);
    healthy_answers_ = answers;
  }

  int Break() {
    fault_.kind = options_.fault;
    fault_.rank = options_.leaders * options_.ranks * 3 / 4 + 1;
    fault_.position = entered_;
    ++entered_;
    for (int rank = 0; rank < options_.ranks; ++rank) job_[rank].Enter({Function::ncclAllReduce, kCount, kFloat32});
    const auto [cpu, memory] = CostOf(job_[0].pid());
    fault_.at_ns = newest_ns_ = watch::Monotonic();
    fault_.planted = true;
    const std::string culprit = "\"culprits\": [\n        " + std::to_string(fault_.rank) + "\n      ]";
    const std::string flat = "\"culprits\": [" + std::to_string(fault_.rank) + "]";
    const bool found = Until(
        [&] {
          const std::string json = job_.Diagnosis();
          return json.find(culprit) != std::string::npos || json.find(flat) != std::string::npos;
        },
        options_.limit_s + 20);
    const double seconds = static_cast<double>(watch::Monotonic() - fault_.at_ns) / 1e9;
    const auto [cpu_after, memory_after] = CostOf(job_[0].pid());
    std::uint64_t asked = 0, reported = 0;
    for (const auto& leader : leaders_) asked += leader->answers();
    const bool all_reported = Until(
        [&] {
          return std::all_of(leaders_.begin(), leaders_.end(), [](const auto& leader) { return leader->reported(); });
        },
        10);
    for (const auto& leader : leaders_) reported += leader->reported() ? 1 : 0;
    std::printf(
        "%s of rank %d: %s after %.2f s, the hub used %.2f s of CPU and %.0f MiB; %llu nodes were asked, %llu told\n",
        fault_.kind.c_str(), fault_.rank, found ? "found" : "NOT FOUND", seconds, cpu_after - cpu, memory_after,
        static_cast<unsigned long long>(asked), static_cast<unsigned long long>(reported));
    const std::string json = job_.Diagnosis();
    std::printf("%s\n", json.substr(0, std::min<std::size_t>(json.size(), 600)).c_str());
    if (!found || seconds > options_.limit_s) return Fail("not found in time");
    if (!all_reported) return Fail("not all leaders were told");
    if (healthy_answers_ != 0) return Fail("something was fetched while all was well");
    return 0;
  }

  const Options& options_;
  watch::FakeJob job_;
  std::vector<std::unique_ptr<PlayedLeader>> leaders_;
  Fault fault_;
  std::uint64_t entered_ = 0, healthy_answers_ = 0;
  std::int64_t newest_ns_ = 1, slowest_tick_ns_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--leaders") options.leaders = std::atoi(value.c_str());
    if (name == "--ranks") options.ranks = std::atoi(value.c_str());
    if (name == "--exchange") options.exchange = value;
    if (name == "--fault") options.fault = value;
    if (name == "--healthy-s") options.healthy_s = std::atof(value.c_str());
    if (name == "--limit-s") options.limit_s = std::atof(value.c_str());
  }
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  return Play(options).Run();
}
