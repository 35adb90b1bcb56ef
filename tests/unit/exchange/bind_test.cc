// NCCLWATCH_BIND: at which address and in which ports leaders listen.
#include <gtest/gtest.h>

#include <set>

#include "tests/unit/exchange/cluster.h"
#include "tests/unit/exchange/relay.h"
#include "watchdog/exchange/rendezvous/address.h"
#include "watchdog/exchange/tcp/acceptor.h"
#include "watchdog/exchange/tcp/context.h"
#include "watchdog/exchange/tcp/dialer.h"

namespace ncclwatch::exchange {
namespace {

using settings::BindAddress;
using testing::Cluster;
using testing::FreePort;
using testing::Name;
using testing::SetupOf;

struct Nobody : Acceptor::Handler {
  void OnJoin(std::unique_ptr<Connection>, const Join&) override {}
};

// One that only listens.
struct Listener {
  explicit Listener(const BindAddress& bind, const std::string& node = Name(0), const std::string& at = "tcp://h:1")
      : loop(Loop::Make({})), setup(SetupOf(node, at)) {
    setup.bind = bind;
    context.emplace(setup, loop.get(), &mailbox);
    acceptor.emplace(&*context, &nobody);
  }
  std::unique_ptr<Loop> loop;
  Setup setup;
  Mailbox mailbox;
  Nobody nobody;
  std::optional<TcpContext> context;
  std::optional<Acceptor> acceptor;
};

bool CanListen(const char* address, std::uint16_t port) {
  Listener other(*settings::ParseBind(address));
  return other.acceptor->Listen(port) != 0;
}

BindAddress Ports(std::uint16_t first, int many) {
  return {"", -1, first, static_cast<std::uint16_t>(first + many - 1)};
}

// Free a moment ago, all of them.
std::uint16_t FreePorts(int many) {
  for (int tries = 0; tries < 1000; ++tries) {
    const std::uint16_t first = FreePort();
    bool free = first < 65000;
    for (int i = 0; i < many && free; ++i) free = CanListen("", static_cast<std::uint16_t>(first + i));
    if (free) return first;
  }
  return 0;
}

TEST(Bind, TheKernelsChoiceStaysInTheRange) {
  const std::uint16_t first = FreePorts(3);
  const BindAddress range = Ports(first, 3);
  std::vector<std::unique_ptr<Listener>> listeners;
  std::set<std::uint16_t> ports;
  for (int i = 0; i < 3; ++i) {
    listeners.push_back(std::make_unique<Listener>(range, Name(i)));
    ports.insert(listeners.back()->acceptor->ListenAnywhere());
  }
  EXPECT_EQ(ports, (std::set<std::uint16_t>{first, static_cast<std::uint16_t>(first + 1),
                                            static_cast<std::uint16_t>(first + 2)}));
  EXPECT_EQ(Listener(range).acceptor->ListenAnywhere(), 0) << "none is free";
}

TEST(Bind, TheMeetingPlaceIsTakenLast) {
  const std::uint16_t first = FreePorts(2);
  for (int node = 0; node < 4; ++node) {
    Listener one(Ports(first, 2), Name(node), "tcp://h:" + std::to_string(first));
    EXPECT_EQ(one.acceptor->ListenAnywhere(), first + 1);
  }
  Listener one(Ports(first, 1), Name(0), "tcp://h:" + std::to_string(first));
  EXPECT_EQ(one.acceptor->ListenAnywhere(), first);
}

TEST(Bind, OneAddressOnly) {
  Listener one(*settings::ParseBind("127.0.0.2"));
  const std::uint16_t port = one.acceptor->ListenAnywhere();
  ASSERT_NE(port, 0);
  EXPECT_FALSE(CanListen("127.0.0.2", port));
  EXPECT_TRUE(CanListen("127.0.0.3", port)) << "it listens at other addresses too";
  EXPECT_FALSE(CanListen("203.0.113.1", 0)) << "nobody's address";
}

TEST(Bind, ANetworkIsTheAddressThatANodeHasInIt) {
  Listener one(*settings::ParseBind("127.0.0.0/8"));
  const std::uint16_t port = one.acceptor->ListenAnywhere();
  ASSERT_NE(port, 0);
  EXPECT_EQ(one.context->place.At(port)->ToText(), "127.0.0.1:" + std::to_string(port));
  EXPECT_TRUE(CanListen("127.0.0.2", port));
  EXPECT_EQ(Listener(*settings::ParseBind("203.0.113.0/24")).acceptor->ListenAnywhere(), 0);
}

struct Caller : Dialer::Handler {
  Join OwnJoin() override { return {}; }
  void OnWelcome(std::unique_ptr<Connection>, const Welcome&) override {}
  void OnElsewhere(const Endpoint&, const Redirect&) override {}
  void OnYield(const Endpoint&) override {}
};

// A hub tells the others at which address a member calls: there it must listen.
TEST(Bind, LeadersCallFromWhereTheyListen) {
  Descriptors descriptors;
  const int listening = ListenSocket(&descriptors, *Endpoint::Parse("127.0.0.1", 0));
  Listener leader(*settings::ParseBind("127.0.0.3"));
  Caller caller;
  Dialer dialer(&*leader.context, &caller);
  dialer.Aim({*LocalOf(listening)}, 1'000'000'000);
  dialer.Tick(Now());
  Endpoint from;
  int fd = -1;
  for (int i = 0; i < 1000 && fd < 0; ++i) {
    leader.loop->Wait(1'000'000);
    fd = AcceptSocket(&descriptors, listening, &from);
  }
  EXPECT_EQ(from.With(1).ToText(), "127.0.0.3:1");
  dialer.Stop();
  descriptors.Close(fd);
  descriptors.Close(listening);
}

TEST(Bind, WhoCannotListenSaysSoOnce) {
  auto setup = SetupOf(Name(0), "tcp://127.0.0.1:" + std::to_string(FreePort()));
  setup.bind = *settings::ParseBind("203.0.113.1");
  Cluster cluster;
  cluster.Add(setup);
  for (int i = 0; i < 20; ++i) cluster[0].Drive(1'000'000);
  const std::vector<std::string> lines = cluster[0].mailbox.TakeLines();
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("cannot listen where NCCLWATCH_BIND allows it"), std::string::npos) << lines[0];
}

TEST(Bind, WhoCallsAnotherAddressOfTheNodeReachesNobody) {
  const Endpoint called = *Endpoint::Parse("10.9.8.7", 1);
  EXPECT_FALSE(ListenPlace(*settings::ParseBind("127.0.0.2")).Reaches(called));
  EXPECT_TRUE(ListenPlace(*settings::ParseBind("10.9.8.7")).Reaches(called));
  EXPECT_TRUE(ListenPlace({}).Reaches(called));
  EXPECT_FALSE(ListenPlace(*settings::ParseBind("0.0.0.0")).Reaches(*Endpoint::Parse("fd00::1", 1)));
}

TEST(Bind, PortsOfAJobLieInTheRangeTheSameForAll) {
  const auto torchrun = [](std::string_view name) -> std::optional<std::string_view> {
    if (name == "TORCHELASTIC_RUN_ID") return "r";
    if (name == "RANK" || name == "LOCAL_RANK") return "0";
    if (name == "WORLD_SIZE" || name == "LOCAL_WORLD_SIZE") return "1";
    if (name == "MASTER_ADDR") return "10.0.0.1";
    if (name == "MASTER_PORT") return "7001";
    return std::nullopt;
  };
  const BindAddress range = *settings::ParseBind(":7000-7004");
  const Address address = AddressFromLauncher(torchrun, range);
  std::set<std::uint16_t> ports(address.more_ports.begin(), address.more_ports.end());
  ports.insert(address.port);
  EXPECT_EQ(ports, (std::set<std::uint16_t>{7000, 7002, 7003, 7004})) << "the job's own port is left alone";
  EXPECT_EQ(AddressFromLauncher(torchrun, *settings::ParseBind("10.0.0.9:7000-7004")).port, address.port);
  // A port that lies in the range stays.
  const Address free = AddressFromLauncher(torchrun);
  EXPECT_EQ(AddressFromLauncher(torchrun, *settings::ParseBind(":20000-29999")).port, free.port);
  EXPECT_EQ(AddressFromLauncher(torchrun, *settings::ParseBind(":7001")).kind, Address::Kind::kNone);
}

}  // namespace
}  // namespace ncclwatch::exchange
