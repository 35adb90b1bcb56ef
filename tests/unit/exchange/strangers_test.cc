// Whoever comes without the token: no effect, bounded descriptors and memory, one line.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "tests/unit/exchange/cluster.h"
#include "tests/unit/exchange/relay.h"
#include "watchdog/exchange/tcp/acceptor.h"

namespace ncclwatch::exchange {
namespace {

using testing::Cluster;
using testing::FreePort;
using testing::Name;
using testing::Relay;
using testing::SetupOf;

int Call(std::uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  fcntl(fd, F_SETFL, O_NONBLOCK);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address));
  return fd;
}

bool Say(int fd, std::string_view text) {
  const ssize_t n = send(fd, text.data(), text.size(), MSG_NOSIGNAL);
  return n == static_cast<ssize_t>(text.size());
}

bool IsClosed(int fd) {
  char byte;
  const ssize_t n = recv(fd, &byte, 1, MSG_DONTWAIT);
  return n == 0 || (n < 0 && errno != EAGAIN);
}

std::size_t OpenDescriptors() {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) count += !entry.path().empty();
  return count;
}

long ResidentKb() {
  std::ifstream file("/proc/self/statm");
  long pages = 0, resident = 0;
  file >> pages >> resident;
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

class Strangers : public ::testing::Test {
 protected:
  Strangers() : port_(FreePort()), relay_(port_) {
    cluster_.Add(SetupOf(Name(0), "tcp://127.0.0.1:" + std::to_string(port_)));
    cluster_.Add(SetupOf(Name(1), "tcp://127.0.0.1:" + std::to_string(relay_.port())));
  }
  void SetUp() override { ASSERT_TRUE(cluster_.UntilAllHave(Name(0))); }
  std::uint64_t Refused() { return cluster_[0].mailbox.counters().strangers_refused; }

  std::uint16_t port_;
  Relay relay_;
  Cluster cluster_;
};

TEST_F(Strangers, TenThousandCostOneLineAndNothingElse) {
  const std::uint64_t joined = cluster_[0].mailbox.counters().joined;
  const std::size_t descriptors = OpenDescriptors();
  const long resident_kb = ResidentKb();
  std::mt19937 random(3);
  std::vector<int> open;
  std::size_t most = 0;
  for (int i = 0; i < 10'000; ++i) {
    const int fd = Call(port_);
    switch (i % 8) {
      case 0: Say(fd, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); break;
      case 1: {
        std::string noise(random() % 300, '\0');
        for (char& byte : noise) byte = static_cast<char>(random());
        Say(fd, noise);
        break;
      }
      case 2: Say(fd, "NCWX"); break;  // knows our language, and then nothing
      default: break;                  // a port scan: comes and goes
    }
    if (i % 8 < 3 || i % 64 == 5)
      open.push_back(fd);
    else
      close(fd);
    if (open.size() > 400) {
      close(open.front());
      open.erase(open.begin());
    }
    if (i % 16 != 0) continue;
    for (std::size_t n = 0; n < 2; ++n) cluster_[n].Drive();
    most = std::max(most, OpenDescriptors() - open.size());
  }
  ASSERT_TRUE(cluster_.Until([&] { return Refused() >= 9'000; }));
  EXPECT_LE(most, descriptors + Acceptor::kMostPending + 8) << "8: the relay's and those being closed";
  // Somebody who belongs here still gets in.
  cluster_.Add(SetupOf(Name(2), "tcp://127.0.0.1:" + std::to_string(relay_.port())));
  EXPECT_TRUE(cluster_.UntilAllHave(Name(0)));
  for (const int fd : open) close(fd);
  EXPECT_EQ(cluster_[0].mailbox.counters().joined, joined + 1) << "nobody lost the hub meanwhile";
  EXPECT_LE(cluster_[0].mailbox.TakeLines().size(), 1u);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(ResidentKb() - resident_kb, 8 * 1024);
#else
  static_cast<void>(resident_kb);
#endif
}

TEST_F(Strangers, OneThatDripsIsSentAwayInTime) {
  const Keys keys({TokenOfSecret("test")});
  Session dialer(Session::Side::kDialer, &keys, *NewNonce());
  const std::string hello = dialer.TakeOutput();  // of one who holds the token, even
  const int fd = Call(port_);
  std::size_t said = 0;
  const std::int64_t began_ns = Now();
  ASSERT_TRUE(cluster_.Until([&] {
    if (said + 1 < hello.size() && Now() - began_ns > static_cast<std::int64_t>(said) * 50'000'000)
      said += Say(fd, hello.substr(said, 1));
    return IsClosed(fd);
  }));
  EXPECT_LT(said, 40u);
  close(fd);
}

TEST_F(Strangers, FullOfSilentOnesItStillLetsInWhoBelongs) {
  std::vector<int> silent;
  for (int i = 0; i < 300; ++i) silent.push_back(Call(port_));
  cluster_.Add(SetupOf(Name(2), "tcp://127.0.0.1:" + std::to_string(relay_.port())));
  EXPECT_TRUE(cluster_.UntilAllHave(Name(0)));
  for (const int fd : silent) close(fd);
}

// As many as the stranger likes, each opened again as soon as it is closed.
TEST_F(Strangers, SilentOnesThatComeAgainDoNotKeepAMemberOut) {
  for (const std::size_t many : {200u, 800u}) {
    std::vector<int> silent;
    const auto keep_up = [&] {
      for (int& fd : silent)
        if (IsClosed(fd)) close(std::exchange(fd, Call(port_)));
    };
    while (silent.size() < many) silent.push_back(Call(port_));
    for (int i = 0; i < 20; ++i) cluster_[0].Drive(), keep_up();
    const std::uint64_t joined = cluster_[0].mailbox.counters().joined;
    const std::int64_t began_ns = Now();
    cluster_.Add(SetupOf(Name(static_cast<int>(many / 100)), "tcp://127.0.0.1:" + std::to_string(relay_.port())));
    ASSERT_TRUE(cluster_.Until([&] {
      keep_up();
      return cluster_[0].mailbox.counters().joined > joined;
    }));
    EXPECT_LT(Now() - began_ns, 2'000'000'000) << many;
    for (const int fd : silent) close(fd);
  }
}

TEST_F(Strangers, WhoSaysNothingGoesSoonerThanWhoKnowsTheToken) {
  auto setup = SetupOf("other", "tcp://127.0.0.1:" + std::to_string(FreePort()));
  setup.timing.handshake = 3600'000'000'000;
  cluster_.Add(setup);
  ASSERT_TRUE(cluster_.Until([&] { return cluster_[2].IsHub(); }));
  const Keys keys({TokenOfSecret("test")});
  Session dialer(Session::Side::kDialer, &keys, *NewNonce());
  const int silent = Call(setup.address.port), slow = Call(setup.address.port);
  cluster_[2].Drive(1'000'000);
  ASSERT_TRUE(Say(slow, dialer.TakeOutput()));
  ASSERT_TRUE(cluster_.Until([&] { return IsClosed(silent); }));
  char bytes[128];
  while (recv(slow, bytes, sizeof(bytes), MSG_DONTWAIT) > 0) {
  }
  EXPECT_FALSE(IsClosed(slow));
  close(silent);
  close(slow);
}

TEST_F(Strangers, ANodeOfAnotherVersionCostsOneLine) {
  const Keys keys({TokenOfSecret("test")});
  std::vector<std::string> lines;
  for (int i = 0; i < 5; ++i) {
    Session dialer(Session::Side::kDialer, &keys, *NewNonce());
    std::string hello = dialer.TakeOutput();
    hello[4] = 1;
    const int fd = Call(port_);
    cluster_[0].Drive();
    ASSERT_TRUE(Say(fd, hello));
    std::string answer;
    ASSERT_TRUE(cluster_.Until([&] {
      char bytes[64];
      const ssize_t n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
      if (n > 0) answer.append(bytes, static_cast<std::size_t>(n));
      return n == 0 || (n < 0 && errno == ECONNRESET);
    }));
    EXPECT_TRUE(answer.starts_with("NCWY")) << "it cannot tell why";
    close(fd);
    for (std::string& line : cluster_[0].mailbox.TakeLines()) lines.push_back(std::move(line));
  }
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("another version of ncclwatch"), std::string::npos) << lines[0];
}

TEST_F(Strangers, AHelloThatWasOverheardLeadsNowhere) {
  const Keys keys({TokenOfSecret("test")});
  Session dialer(Session::Side::kDialer, &keys, *NewNonce());
  const std::string hello = dialer.TakeOutput();
  const std::uint64_t joined = cluster_[0].mailbox.counters().joined;
  std::vector<int> fds;
  for (int i = 0; i < 100; ++i) {
    fds.push_back(Call(port_));
    cluster_[0].Drive();
    Say(fds.back(), hello);
    cluster_[0].Drive();
    if (i % 2 == 0) Say(fds.back(), std::string(32, '\x5a'));  // a proof that is none
  }
  ASSERT_TRUE(cluster_.Until([&] {
    return std::all_of(fds.begin(), fds.end(), [](int fd) {
      char bytes[128];
      while (recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0) {
      }
      return IsClosed(fd);
    });
  }));
  for (const int fd : fds) close(fd);
  EXPECT_EQ(cluster_[0].mailbox.counters().joined, joined);
}

}  // namespace
}  // namespace ncclwatch::exchange
