#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <new>

#include "watchdog/act/thread.h"
#include "watchdog/descriptors/high.h"
#include "watchdog/exchange/net/loop.h"
#include "watchdog/exchange/protocol/crypto.h"
#include "watchdog/exchange/protocol/exchange.h"
#include "watchdog/exchange/protocol/mailbox.h"
#include "watchdog/exchange/protocol/node.h"

namespace ncclwatch::exchange {
namespace {

constexpr std::int64_t kUnwakeable_ns = 20'000'000;  // where nobody can wake the thread it looks so often
constexpr int kPatience_ms = 80;                     // of the destructor
constexpr std::int64_t kFarewell_ns = 50'000'000;    // for what waits to be sent
constexpr unsigned long kTimerSlack_ns = 1'000'000;
constexpr int kMostFailures = 3;  // exceptions (memory) before the thread ends
constexpr std::int64_t kAfterFailure_ns = 1'000'000'000;

// The end of the pipe by which the thread is woken.
class Bell final : public Source {
 public:
  explicit Bell(int fd) : fd_(fd) {}
  void Ready(std::uint32_t) override {
    std::array<char, 64> rung;
    while (read(fd_, rung.data(), rung.size()) == static_cast<ssize_t>(rung.size())) {
    }
  }

 private:
  const int fd_;
};

// What the thread and the Exchange share; the thread may live a little longer than the Exchange.
struct Shared {
  explicit Shared(const Setup& from) : setup(from) {}
  void Run();
  void Serve(Loop* loop, bool wakeable);

  const Setup setup;
  Mailbox mailbox;
  std::array<int, 2> pipe{-1, -1};      // in the host's table, closed from there
  std::atomic<bool> pipe_taken{false};  // the thread has its own end
  struct stat pipe_file {};
  std::atomic<bool> stop{false};
  std::atomic<bool> finished{false};
};

void Shared::Serve(Loop* loop, bool wakeable) {
  std::string why;
  const std::unique_ptr<Node> node = setup.address.kind == Address::Kind::kTcp
                                         ? MakeTcpNode(setup, loop, &mailbox)
                                         : MakeRedisNode(setup, loop, &mailbox, &why);
  if (!node) return mailbox.Say(fmt::format("no exchange between nodes: {}", why));
  while (!stop.load(std::memory_order_acquire)) {
    node->Tick(Now());
    const std::int64_t wait_ns = std::max<std::int64_t>(node->Due_ns() - Now(), 0);
    loop->Wait(wakeable ? wait_ns : std::min(wait_ns, kUnwakeable_ns));
  }
  const std::int64_t until_ns = Now() + kFarewell_ns;
  node->Leave(Now());
  do {
    node->Tick(Now());
    loop->Wait(1'000'000);
  } while (!node->Idle() && Now() < until_ns);
}

void Shared::Run() {
  prctl(PR_SET_TIMERSLACK, kTimerSlack_ns, 0, 0, 0);
  Descriptors descriptors;
  int wake = -1;
  if (!descriptors.GoPrivate(pipe[0], &wake)) wake = descriptors.Keep(fcntl(pipe[0], F_DUPFD_CLOEXEC, 0));
  pipe_taken.store(true, std::memory_order_release);
  for (int failures = 0; failures < kMostFailures && !stop.load(std::memory_order_acquire); ++failures) {
    if (failures > 0) usleep(kAfterFailure_ns / 1000);
    try {
      const std::unique_ptr<Loop> loop = Loop::Make(descriptors);
      if (!loop) continue;
      Bell bell(wake);
      const bool wakeable = wake >= 0 && loop->Watch(wake, EPOLLIN, &bell);
      Serve(loop.get(), wakeable);
      break;
    } catch (const std::exception& error) {
      mailbox.Say(fmt::format("the exchange between nodes begins anew: {}", error.what()));
    }
  }
  descriptors.Close(wake);
}

class Threaded final : public Exchange {
 public:
  explicit Threaded(std::shared_ptr<Shared> shared) : shared_(std::move(shared)), pid_(getpid()) {}
  ~Threaded() override;

  bool Send(std::string_view to, Type type, std::string body) override {
    if (InChild() || !shared_->mailbox.Send(to, type, std::move(body))) return false;
    Ring();
    return true;
  }
  std::optional<Message> Receive() override { return InChild() ? std::nullopt : shared_->mailbox.Receive(); }
  Status status() const override { return InChild() ? Status() : shared_->mailbox.status(); }
  std::vector<Peer> Peers() const override { return InChild() ? std::vector<Peer>() : shared_->mailbox.Peers(); }
  Counters counters() const override { return InChild() ? Counters() : shared_->mailbox.counters(); }
  std::vector<std::string> TakeLines() override {
    return InChild() ? std::vector<std::string>() : shared_->mailbox.TakeLines();
  }

 private:
  // The thread that would release the mailbox's lock is not there.
  bool InChild() const { return getpid() != pid_; }

  // The host may have closed this descriptor and have been given its number.
  bool IsOurs(int fd) const {
    struct stat file {};
    return fstat(fd, &file) == 0 && file.st_dev == shared_->pipe_file.st_dev &&
           file.st_ino == shared_->pipe_file.st_ino;
  }
  void Ring() const {
    const char one = 1;
    if (shared_->finished.load(std::memory_order_acquire)) return;                 // nobody would read it
    if (IsOurs(shared_->pipe[1]) && write(shared_->pipe[1], &one, 1) < 0) return;  // full: it has been rung
  }

  std::shared_ptr<Shared> shared_;
  const int pid_;
};

Threaded::~Threaded() {
  if (InChild()) {
    // The descriptors of the pipe are the child's own copies, the rest is memory: left alone.
    new (std::nothrow) std::shared_ptr<Shared>(std::move(shared_));
    return;
  }
  shared_->stop.store(true, std::memory_order_release);
  Ring();
  for (int i = 0; i < kPatience_ms && !shared_->finished.load(std::memory_order_acquire); ++i) usleep(1000);
  if (!shared_->pipe_taken.load(std::memory_order_acquire)) return;
  for (const int fd : shared_->pipe)
    if (IsOurs(fd)) close(fd);
}

}  // namespace

std::unique_ptr<Exchange> Open(const Setup& setup, std::string* why) {
  const auto refuse = [why](const char* text) {
    if (why) *why = text;
    return nullptr;
  };
  if (!HasCrypto()) return refuse("this build has no encryption");
  if (setup.address.kind == Address::Kind::kNone) return refuse("no address");
  if (setup.tokens.empty()) return refuse("no token");
  if (setup.self.node.empty() || setup.self.node.size() > kMaxName) return refuse("no name, or too long a name");
  try {
    auto shared = std::make_shared<Shared>(setup);
    if (pipe2(shared->pipe.data(), O_CLOEXEC | O_NONBLOCK) != 0) return refuse("no descriptor left");
    for (int& fd : shared->pipe) fd = descriptors::MoveHigh(fd);
    if (fstat(shared->pipe[1], &shared->pipe_file) != 0) return refuse("no descriptor left");
    const bool started = act::StartThread("ncclwatch-exch", [shared] {
      shared->Run();
      shared->finished.store(true, std::memory_order_release);
    });
    if (!started) return refuse("no thread could be made");
    return std::make_unique<Threaded>(std::move(shared));
  } catch (const std::exception& error) {
    return refuse("out of memory");
  }
}

}  // namespace ncclwatch::exchange
