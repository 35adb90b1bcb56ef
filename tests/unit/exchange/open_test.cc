// The Exchange with its thread, as the watchdog uses it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "tests/unit/exchange/cluster.h"
#include "tests/unit/exchange/relay.h"

namespace ncclwatch::exchange {
namespace {

using testing::FreePort;
using testing::Name;
using testing::Relay;
using testing::SetupOf;

std::string AddressOf(std::uint16_t port) { return "tcp://127.0.0.1:" + std::to_string(port); }

template <typename Holds>
bool Until(Holds holds) {
  for (int i = 0; i < 60'000; ++i) {
    if (holds()) return true;
    usleep(1000);
  }
  return false;
}

struct Two {
  explicit Two(std::uint16_t port = FreePort())
      : relay(port),
        hub(Open(SetupOf(Name(0), AddressOf(port)), nullptr)),
        member(Open(SetupOf(Name(1), AddressOf(relay.port())), nullptr)) {}
  bool Meet() {
    return hub && member &&
           Until([&] { return hub->IsHub() && member->status().connected && hub->Peers().size() == 1; });
  }
  Relay relay;
  std::unique_ptr<Exchange> hub, member;
};

std::optional<std::string> NextBody(Exchange* exchange) {
  std::optional<std::string> body;
  Until([&] {
    while (const std::optional<Message> message = exchange->Receive())
      if (message->type != Type::kJoined && message->type != Type::kLeft) body = message->body;
    return body.has_value();
  });
  return body;
}

TEST(Exchange, TwoThreadsMeetAndTalk) {
  Two two;
  ASSERT_TRUE(two.Meet());
  ASSERT_TRUE(two.member->Send("", Type::kSummary, "up"));
  EXPECT_EQ(NextBody(two.hub.get()), "up");
  ASSERT_TRUE(two.hub->Send("*", Type::kVerdict, "down"));
  EXPECT_EQ(NextBody(two.member.get()), "down");
  EXPECT_GT(two.hub->counters().bytes_in, 100u);
}

TEST(Exchange, WhatWasSentBeforeTheEndStillArrives) {
  Two two;
  ASSERT_TRUE(two.Meet());
  ASSERT_TRUE(two.member->Send("", Type::kVerdict, std::string(500'000, 'v')));
  two.member.reset();
  EXPECT_EQ(NextBody(two.hub.get()).value_or("").size(), 500'000u);
  EXPECT_TRUE(Until([&] { return !two.hub->Peers().at(0).connected; }));
}

TEST(Exchange, EndsWithinATenthOfASecond) {
  for (const char* address :
       {"tcp://127.0.0.1:1", "tcp://192.0.2.1:1", "tcp://no-such-name.invalid:1", "redis://192.0.2.1"}) {
    std::unique_ptr<Exchange> exchange = Open(SetupOf(Name(1), address), nullptr);
    ASSERT_TRUE(exchange);
    for (int i = 0; i < 5; ++i) exchange->Send("", Type::kSummary, "x");
    usleep(20'000);
    const std::int64_t began_ns = Now();
    exchange.reset();
    EXPECT_LT(Now() - began_ns, 100'000'000) << address;
  }
}

TEST(Exchange, RefusesWhatItCannotWorkWith) {
  std::string why;
  exchange::Setup setup = SetupOf(Name(1), "tcp://127.0.0.1:1");
  setup.address.kind = Address::Kind::kNone;
  EXPECT_FALSE(Open(setup, &why));
  EXPECT_EQ(why, "no address");
  setup = SetupOf(Name(1), "tcp://127.0.0.1:1");
  setup.tokens.clear();
  EXPECT_FALSE(Open(setup, &why));
  setup = SetupOf("", "tcp://127.0.0.1:1");
  EXPECT_FALSE(Open(setup, &why));
}

std::set<std::string> Sockets() {
  std::set<std::string> sockets;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const std::string target = std::filesystem::read_symlink(entry.path(), error).string();
    if (target.starts_with("socket:") || target.find("epoll") != std::string::npos) sockets.insert(target);
  }
  return sockets;
}

// A child that kept the listening socket would keep the address of a dead leader taken.
TEST(Exchange, AForkChildHasNoneOfItsSocketsAndCannotUseIt) {
  const std::set<std::string> before = Sockets();
  Two two;
  ASSERT_TRUE(two.Meet());
  const pid_t child = fork();
  if (child == 0) {
    std::set<std::string> after = Sockets();
    for (const std::string& socket : before) after.erase(socket);
    int wrong = static_cast<int>(after.size()) - 3;  // the relay's own: listener and two ends
    if (wrong < 0) wrong = 0;
    if (two.hub->Send("*", Type::kSummary, "from the child")) wrong += 100;
    if (two.hub->Receive() || two.hub->status().connected || !two.hub->Peers().empty()) wrong += 50;
    two.hub.reset();  // at once, and without effect on the parent's
    _exit(wrong);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  ASSERT_TRUE(two.member->Send("", Type::kSummary, "still"));
  EXPECT_EQ(NextBody(two.hub.get()), "still");
}

// Hosts close what they see (daemons do), and take the numbers for files of their own.
TEST(Exchange, SurvivesAHostThatClosesEverything) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "to close what another thread reads is the race that is wanted here";
#endif
  const pid_t child = fork();
  if (child == 0) {
    const std::uint16_t port = FreePort();
    std::unique_ptr<Exchange> hub = Open(SetupOf(Name(0), AddressOf(port)), nullptr);
    if (!Until([&] { return hub->IsHub(); })) _exit(2);
    for (int fd = 3; fd < 2048; ++fd) close(fd);
    const std::string path = "/tmp/ncclwatch-exchange-host-" + std::to_string(getpid());
    for (int i = 0; i < 1200; ++i) open(path.c_str(), O_RDWR | O_CREAT | O_APPEND, 0600);
    for (int i = 0; i < 20; ++i) hub->Send("", Type::kSummary, "x");
    if (!Until([&] { return hub->Receive().has_value(); })) _exit(3);
    hub.reset();
    struct stat file {};
    stat(path.c_str(), &file);
    unlink(path.c_str());
    _exit(file.st_size == 0 ? 0 : 4);  // nothing of ours got into the host's files
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// The table that the thread leaves the host holds copies of nothing: a pipe whose writer the host closes ends.
TEST(Exchange, KeepsNoneOfTheHostsFilesOpen) {
  int pipes[2];
  ASSERT_EQ(pipe2(pipes, O_CLOEXEC), 0);
  std::unique_ptr<Exchange> exchange = Open(SetupOf(Name(0), AddressOf(FreePort())), nullptr);
  ASSERT_TRUE(Until([&] { return exchange->IsHub(); }));
  close(pipes[1]);
  char byte;
  EXPECT_EQ(read(pipes[0], &byte, 1), 0);
  close(pipes[0]);
}

TEST(Exchange, LeavesNoDescriptorBehind) {
  const auto count = [] {
    std::size_t open = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) open += !entry.path().empty();
    return open;
  };
  const std::size_t before = count();
  for (int i = 0; i < 5; ++i) {
    Two two;
    ASSERT_TRUE(two.Meet());
  }
  EXPECT_EQ(count(), before);
}

}  // namespace
}  // namespace ncclwatch::exchange
