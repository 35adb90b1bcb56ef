// Many node leaders in one program, on loopback: what one hub, or one Redis server, has to bear.
//
//   exchange_load [--nodes 1250] [--transport tcp|redis] [--threads 1] [--summary 256] [--seconds 10]
//
// Prints how long it took until all were connected, the processor time of the hub (a thread of its own) and of
// redis-server, bytes per node and second with one summary of the given size a second from each, and how long a message
// of one node took to reach all others. Exit status 1: not all came together, or a message did not arrive.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/exchange/redis_server.h"
#include "tests/unit/exchange/relay.h"
#include "watchdog/exchange/net/loop.h"
#include "watchdog/exchange/protocol/mailbox.h"
#include "watchdog/exchange/protocol/node.h"
#include "watchdog/exchange/rendezvous/address.h"
#include "watchdog/exchange/rendezvous/token.h"

namespace {

using namespace ncclwatch::exchange;

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr int kRounds = 20;

struct Options {
  int nodes = 1250, threads = 1, seconds = 10;
  std::size_t summary = 256;
  bool redis = false;
};

std::int64_t ThreadCpu() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * kSecond + now.tv_nsec;
}

struct Member {
  std::unique_ptr<Mailbox> mailbox = std::make_unique<Mailbox>();
  std::unique_ptr<Node> node;
  std::int64_t due_ns = 0, next_summary_ns = 0;
};

// Endpoints of one thread.
class Group {
 public:
  Group(const Options& options, const Setup& setup, int first, int count) : options_(options) {
    loop_ = Loop::Make({});
    for (int i = first; i < first + count; ++i) {
      Setup own = setup;
      own.self.node = "node-" + std::to_string(i);
      own.self.host = own.self.node;
      own.self.incarnation = 1;
      Member& member = members_.emplace_back();
      std::string why;
      member.node = options.redis ? MakeRedisNode(own, loop_.get(), member.mailbox.get(), &why)
                                  : MakeTcpNode(own, loop_.get(), member.mailbox.get());
    }
  }
  void Start() {
    thread_ = std::thread([this] { Run(); });
  }
  void Stop() {
    stop_ = true;
    thread_.join();
  }
  std::vector<Member>& members() { return members_; }
  std::int64_t cpu_ns() const { return cpu_ns_; }
  std::int64_t came() const { return came_; }
  std::int64_t summaries() const { return summaries_; }
  std::int64_t last_came_ns() const { return last_came_ns_; }
  // Why somebody left, and how often.
  std::map<std::string, int> reasons() {
    const std::lock_guard lock(mutex_);
    return reasons_;
  }
  void ResetCame() { came_ = 0; }
  void Summarize(bool on) { summarizing_ = on; }

 private:
  void Run() {
    while (!stop_) {
      std::int64_t now_ns = Now(), next_ns = now_ns + 5'000'000;
      for (std::size_t i = 0; i < members_.size(); ++i) {
        Member& member = members_[i];
        Say(&member, i, now_ns);
        if (now_ns >= member.due_ns) {
          member.node->Tick(now_ns);
          member.due_ns = member.node->Due_ns();
        }
        next_ns = std::min(next_ns, member.due_ns);
        Hear(&member);
      }
      loop_->Wait(std::max<std::int64_t>(next_ns - Now(), 0));
      cpu_ns_ = ThreadCpu();
    }
    for (Member& member : members_) member.node.reset();
  }
  // One summary a second from each, spread over the second.
  void Say(Member* member, std::size_t which, std::int64_t now_ns) {
    if (!summarizing_) {
      member->next_summary_ns = 0;
      if (say_.load() != static_cast<int>(which)) return;
      say_ = -1;
      member->mailbox->Send("*", Type::kVerdict, std::string(1000, 'v'));
      member->due_ns = 0;
      return;
    }
    if (member->next_summary_ns == 0)
      member->next_summary_ns =
          now_ns + kSecond * static_cast<std::int64_t>(which) / static_cast<std::int64_t>(members_.size());
    if (now_ns < member->next_summary_ns) return;
    member->next_summary_ns += kSecond;
    member->mailbox->Send("", Type::kSummary, std::string(options_.summary, 's'));
    member->due_ns = 0;
  }
  void Hear(Member* member) {
    while (const std::optional<Message> message = member->mailbox->Receive()) {
      if (message->type == Type::kSummary) ++summaries_;
      if (message->type == Type::kLeft) {
        const std::lock_guard lock(mutex_);
        ++reasons_[message->body];
      }
      if (message->type != Type::kVerdict) continue;
      last_came_ns_ = Now();
      ++came_;
    }
  }

  const Options options_;
  std::mutex mutex_;
  std::map<std::string, int> reasons_;
  std::unique_ptr<Loop> loop_;
  std::vector<Member> members_;
  std::thread thread_;
  std::atomic<bool> stop_{false}, summarizing_{false};
  std::atomic<std::int64_t> cpu_ns_{0}, came_{0}, summaries_{0}, last_came_ns_{0};

 public:
  std::atomic<int> say_{-1};
};

template <typename Holds>
bool Until(int seconds, Holds holds) {
  for (const std::int64_t deadline = Now() + seconds * kSecond; Now() < deadline; usleep(2000))
    if (holds()) return true;
  return false;
}

double CpuOfProcess(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  unsigned long user = 0, system = 0;
  const std::size_t close = text.rfind(')');
  if (close == std::string::npos) return 0;
  std::sscanf(text.c_str() + close + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system);
  return static_cast<double>(user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

class Load {
 public:
  explicit Load(const Options& options) : options_(options) {
    setup_.tokens = {TokenOfSecret("load")};
    setup_.job = "load";
    if (options.redis) server_ = std::make_unique<ncclwatch::testing::RedisServer>();
    const std::uint16_t port = server_ ? server_->port() : ncclwatch::testing::FreePort();
    setup_.address =
        *ParseAddress((server_ ? "redis://127.0.0.1:" : "tcp://127.0.0.1:") + std::to_string(port), nullptr);
  }
  int Run();

 private:
  bool Connect();
  bool Steady();
  bool Broadcast(const char* from, Group* group, int which);
  int Connected() const;
  std::uint64_t Bytes() const;

  const Options options_;
  Setup setup_;
  std::unique_ptr<ncclwatch::testing::RedisServer> server_;
  std::vector<std::unique_ptr<Group>> groups_;  // the first one is the hub alone
};

int Load::Connected() const {
  int connected = 0;
  for (const auto& group : groups_)
    for (const Member& member : group->members()) connected += member.mailbox->status().connected;
  return connected;
}

std::uint64_t Load::Bytes() const {
  std::uint64_t bytes = 0;
  for (std::size_t g = 1; g < groups_.size(); ++g)
    for (const Member& member : groups_[g]->members()) {
      const Counters counters = member.mailbox->counters();
      bytes += counters.bytes_in + counters.bytes_out;
    }
  return bytes;
}

bool Load::Connect() {
  groups_.push_back(std::make_unique<Group>(options_, setup_, 0, 1));
  groups_[0]->Start();
  const auto hub = [this] { return groups_[0]->members()[0].mailbox->status().hub; };
  if (!Until(10, hub)) return false;
  for (int first = 1, g = 0; g < options_.threads; ++g) {
    const int count = (options_.nodes - first) / (options_.threads - g);
    groups_.push_back(std::make_unique<Group>(options_, setup_, first, count));
    first += count;
  }
  const std::int64_t began_ns = Now(), cpu_ns = groups_[0]->cpu_ns();
  for (std::size_t g = 1; g < groups_.size(); ++g) groups_[g]->Start();
  const auto all = [this] {
    return Connected() == options_.nodes &&
           groups_[0]->members()[0].mailbox->Peers().size() == static_cast<std::size_t>(options_.nodes - 1);
  };
  const bool connected = Until(120, all);
  std::printf("connected     %d of %d leaders in %.2f s, the hub's processor time %.3f s\n", Connected(),
              options_.nodes, static_cast<double>(Now() - began_ns) / 1e9,
              static_cast<double>(groups_[0]->cpu_ns() - cpu_ns) / 1e9);
  return connected && hub();
}

bool Load::Steady() {
  // Pings settle at the pace for so many.
  for (const bool summaries : {false, true}) {
    for (const auto& group : groups_) group->Summarize(summaries);
    usleep(2'000'000);
    const std::int64_t began_ns = Now(), cpu_ns = groups_[0]->cpu_ns(), came = groups_[0]->summaries();
    const std::uint64_t bytes = Bytes();
    const double server = server_ ? CpuOfProcess(server_->pid()) : 0;
    usleep(static_cast<unsigned>(options_.seconds) * 1'000'000);
    const double seconds = static_cast<double>(Now() - began_ns) / 1e9;
    std::printf("%s%.0f bytes per node and second (in and out), the hub's processor %.2f %%",
                summaries ? "summaries     " : "idle          ",
                static_cast<double>(Bytes() - bytes) / seconds / (options_.nodes - 1),
                static_cast<double>(groups_[0]->cpu_ns() - cpu_ns) / 1e7 / seconds);
    if (server_) std::printf(", redis-server's %.2f %%", (CpuOfProcess(server_->pid()) - server) * 100 / seconds);
    if (summaries)
      std::printf(", %.0f summaries of %zu bytes a second",
                  static_cast<double>(groups_[0]->summaries() - came) / seconds, options_.summary);
    std::printf("\n");
    if (summaries && static_cast<double>(groups_[0]->summaries() - came) < 0.8 * seconds * (options_.nodes - 1))
      return false;
  }
  for (const auto& group : groups_) group->Summarize(false);
  return Connected() == options_.nodes;
}

bool Load::Broadcast(const char* from, Group* group, int which) {
  std::vector<double> ms;
  for (int round = 0; round < kRounds; ++round) {
    for (const auto& one : groups_) one->ResetCame();
    const std::int64_t began_ns = Now();
    group->say_ = which;
    const auto all = [this] {
      std::int64_t came = 0;
      for (const auto& one : groups_) came += one->came();
      return came == options_.nodes - 1;
    };
    if (!Until(30, all)) return false;
    std::int64_t last_ns = 0;
    for (const auto& one : groups_) last_ns = std::max(last_ns, one->last_came_ns());
    ms.push_back(static_cast<double>(last_ns - began_ns) / 1e6);
  }
  std::sort(ms.begin(), ms.end());
  std::printf("from %s to all others: %.1f ms (median of %d), at most %.1f ms\n", from, ms[kRounds / 2], kRounds,
              ms.back());
  return true;
}

int Load::Run() {
  std::printf("%d leaders over %s, members in %d thread(s)\n", options_.nodes,
              options_.redis ? "Redis" : "embedded TCP", options_.threads);
  const bool well = Connect() && Steady() && Broadcast("the hub   ", groups_[0].get(), 0) &&
                    Broadcast("one member", groups_[1].get(), 0);
  const Counters hub = groups_[0]->members()[0].mailbox->counters();
  std::printf("the hub saw   %lu join and %lu leave\n", hub.joined, hub.left);
  for (const auto& [reason, times] : groups_[0]->reasons())
    std::printf("  left        %d times: %s\n", times, reason.c_str());
  for (const std::string& line : groups_[0]->members()[0].mailbox->TakeLines()) std::printf("%s\n", line.c_str());
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf("memory        %ld MiB at most, for all leaders together\n", usage.ru_maxrss / 1024);
  for (const auto& group : groups_) group->Stop();
  if (!well) std::printf("NOT all came together, or a message did not arrive\n");
  return well ? 0 : 1;
}

bool Parse(int argc, char** argv, Options* options) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const int number = std::atoi(argv[i + 1]);
    if (name == "--nodes")
      options->nodes = number;
    else if (name == "--threads")
      options->threads = number;
    else if (name == "--seconds")
      options->seconds = number;
    else if (name == "--summary")
      options->summary = static_cast<std::size_t>(number);
    else if (name == "--transport")
      options->redis = std::strcmp(argv[i + 1], "redis") == 0;
    else
      return false;
  }
  return argc % 2 == 1 && options->nodes > options->threads && options->threads > 0 && options->seconds > 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!Parse(argc, argv, &options)) {
    std::fprintf(stderr,
                 "exchange_load [--nodes N] [--transport tcp|redis] [--threads N] [--summary BYTES] [--seconds N]\n");
    return 2;
  }
  if (options.redis && !ncclwatch::testing::RedisServer::IsInstalled()) {
    std::printf("no redis-server here\n");
    return 77;
  }
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  return Load(options).Run();
}
