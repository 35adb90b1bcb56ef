// Leaders over embedded TCP: who is hub, who is next, and what arrives.
#include <gtest/gtest.h>
#include <unistd.h>

#include <set>

#include "tests/unit/exchange/cluster.h"
#include "tests/unit/exchange/relay.h"

namespace ncclwatch::exchange {
namespace {

using testing::Cluster;
using testing::Faults;
using testing::FreePort;
using testing::Leader;
using testing::Name;
using testing::Relay;
using testing::SetupOf;

std::string At(std::uint16_t port) { return "tcp://127.0.0.1:" + std::to_string(port); }

// node-00 listens at the meeting place. The others know it through a relay on their own machine, whose port they cannot
// take over, as members on other machines could not.
class Tcp : public ::testing::Test {
 protected:
  Tcp() : port_(FreePort()), relay_(port_) {}
  void Start(int leaders) {
    cluster_.Add(SetupOf(Name(0), At(port_)));
    ASSERT_TRUE(cluster_.Until([&] { return cluster_[0].IsHub(); }));
    // One after the other: the order in line is that of coming.
    for (int i = 1; i < leaders; ++i) {
      cluster_.Add(SetupOf(Name(i), At(relay_.port())));
      ASSERT_TRUE(cluster_.UntilAllHave(Name(0)));
    }
    // Everybody knows who is next in line.
    ASSERT_TRUE(cluster_.Until([&] {
      for (int i = 1; i < leaders; ++i)
        if (cluster_[static_cast<std::size_t>(i)].mailbox.Peers().size() != static_cast<std::size_t>(leaders - 1))
          return false;
      return true;
    }));
  }
  std::uint16_t port_;
  Relay relay_;
  Cluster cluster_;
};

TEST_F(Tcp, MembersFindTheHubAndItKnowsThem) {
  ASSERT_NO_FATAL_FAILURE(Start(4));
  EXPECT_EQ(cluster_.Hubs(), 1);
  std::set<std::string> joined;
  for (const Message& message : cluster_[0].Take())
    if (message.type == Type::kJoined) joined.insert(message.from);
  EXPECT_EQ(joined, (std::set<std::string>{Name(1), Name(2), Name(3)}));
  for (const Peer& peer : cluster_[0].mailbox.Peers()) {
    EXPECT_TRUE(peer.connected);
    EXPECT_EQ(peer.host, "host of " + peer.node);
    EXPECT_EQ(peer.incarnation, 1u);
    EXPECT_FALSE(peer.hub);
  }
  for (std::size_t i = 1; i < 4; ++i) {
    const std::vector<Message> reported = cluster_[i].Take();
    ASSERT_EQ(reported.size(), 1u);
    EXPECT_EQ(reported[0].type, Type::kJoined);
    EXPECT_EQ(reported[0].from, Name(0));
    EXPECT_EQ(cluster_[i].mailbox.status().term, 1u);
  }
}

TEST_F(Tcp, MessagesReachWhomTheyAreFor) {
  ASSERT_NO_FATAL_FAILURE(Start(3));
  for (std::size_t i = 0; i < 3; ++i) cluster_[i].Take();
  ASSERT_TRUE(cluster_[1].mailbox.Send("", Type::kSummary, "to the hub"));
  ASSERT_TRUE(cluster_[0].mailbox.Send(Name(2), Type::kFetch, "to one"));
  ASSERT_TRUE(cluster_[2].mailbox.Send(Name(1), Type::kRecords, "to another member"));
  ASSERT_TRUE(cluster_[1].mailbox.Send("*", Type::kVerdict, "to all"));
  ASSERT_TRUE(cluster_[0].mailbox.Send("*", Type::kAction, "from the hub"));
  ASSERT_TRUE(cluster_[0].mailbox.Send("", Type::kSummary, "to itself"));
  ASSERT_TRUE(cluster_[2].mailbox.Send(Name(2), Type::kSummary, "to itself by name"));
  ASSERT_TRUE(cluster_[1].mailbox.Send("nobody", Type::kFetch, "lost"));
  std::vector<std::set<std::string>> came(3);
  const std::vector<std::set<std::string>> expected = {
      {"node-01 to the hub", "node-01 to all", "node-00 to itself"},
      {"node-02 to another member", "node-00 from the hub"},
      {"node-00 to one", "node-01 to all", "node-00 from the hub", "node-02 to itself by name"}};
  EXPECT_TRUE(cluster_.Until([&] {
    for (std::size_t i = 0; i < 3; ++i)
      for (const Message& message : cluster_[i].Take())
        EXPECT_TRUE(came[i].insert(message.from + " " + message.body).second);
    return came == expected;
  }));
  EXPECT_EQ(came, expected);
}

TEST_F(Tcp, TheLargestBodyPassesALargerOneIsRefused) {
  ASSERT_NO_FATAL_FAILURE(Start(2));
  cluster_[0].Take();
  std::string large(kMaxBody, 'x');
  large.back() = 'y';
  ASSERT_TRUE(cluster_[1].mailbox.Send("", Type::kRecords, large));
  EXPECT_FALSE(cluster_[1].mailbox.Send("", Type::kRecords, large + "z"));
  EXPECT_FALSE(cluster_[1].mailbox.Send("", Type::kJoined, "said only by the exchange"));
  std::vector<Message> came;
  EXPECT_TRUE(cluster_.Until([&] { return !(came = cluster_[0].Take()).empty(); }));
  EXPECT_EQ(came.at(0).body, large);
  EXPECT_EQ(cluster_[1].mailbox.counters().messages_refused, 2u);
}

TEST_F(Tcp, WithoutAHubMessagesWaitForOneAndTheOldestSummariesGo) {
  Leader& member = cluster_.Add(SetupOf(Name(1), At(relay_.port())));
  ASSERT_TRUE(member.mailbox.Send("", Type::kVerdict, "kept"));
  for (int i = 0; i < 3000; ++i) ASSERT_TRUE(member.mailbox.Send("", Type::kSummary, std::to_string(i)));
  cluster_.Add(SetupOf(Name(0), At(port_)));
  std::vector<std::string> bodies;
  ASSERT_TRUE(cluster_.Until([&] {
    for (const Message& message : cluster_[1].Take())
      if (message.type != Type::kJoined) bodies.push_back(message.body);
    return !bodies.empty() && bodies.back() == "2999";
  }));
  EXPECT_EQ(bodies.front(), "kept");
  EXPECT_EQ(bodies.size() + member.mailbox.counters().summaries_dropped, 3001u);
  EXPECT_GT(member.mailbox.counters().summaries_dropped, 1000u);
}

TEST_F(Tcp, WhenTheHubsNodeIsGoneTheFirstInLineIsHub) {
  ASSERT_NO_FATAL_FAILURE(Start(5));
  cluster_.Kill(0);
  ASSERT_TRUE(cluster_.UntilAllHave(Name(1)));
  EXPECT_EQ(cluster_[4].mailbox.status().term, 2u);
  ASSERT_TRUE(cluster_[4].mailbox.Send("*", Type::kVerdict, "still here"));
  ASSERT_TRUE(cluster_.Until([&] {
    for (const Message& message : cluster_[2].Take())
      if (message.body == "still here") return true;
    return false;
  }));
  // And the next, with the first two of the old line gone at once.
  cluster_.Kill(1);
  cluster_.Kill(2);
  ASSERT_TRUE(cluster_.Until([&] { return cluster_[3].IsHub() || cluster_[4].IsHub(); }));
  ASSERT_TRUE(cluster_.UntilAllHave(cluster_[3].IsHub() ? Name(3) : Name(4)));
  EXPECT_EQ(cluster_.Hubs(), 1);
  EXPECT_GE(cluster_[3].mailbox.status().term, 3u);
}

TEST_F(Tcp, AHubThatEndsInOrderIsFollowedAtOnce) {
  ASSERT_NO_FATAL_FAILURE(Start(3));
  cluster_[0].node->Leave(Now());
  ASSERT_TRUE(cluster_.Until([&] { return !cluster_[1].Connected() && !cluster_[2].Connected(); }));
  cluster_.Kill(0);
  ASSERT_TRUE(cluster_.UntilAllHave(Name(1)));
}

TEST_F(Tcp, ALeaderThatEndsInOrderHasLeft) {
  ASSERT_NO_FATAL_FAILURE(Start(3));
  cluster_[0].Take();
  cluster_[2].node->Leave(Now());
  std::vector<Message> reported;
  ASSERT_TRUE(cluster_.Until([&] { return !(reported = cluster_[0].Take()).empty(); }));
  EXPECT_EQ(reported.at(0).type, Type::kLeft);
  EXPECT_EQ(reported.at(0).from, Name(2));
  EXPECT_TRUE(cluster_.Until([&] { return cluster_[0].ConnectedPeers() == 1; }));
}

class TcpWithMemory : public Tcp {
 protected:
  exchange::Setup Remembering(int number, std::uint16_t port) {
    exchange::Setup setup = SetupOf(Name(number), At(port));
    setup.directory = descriptors::Directory::Named("/tmp");
    setup.memory = "ncclwatch-exchange-test-" + std::to_string(getpid()) + "-" + std::to_string(number);
    files_.insert(setup.directory.PathOf(setup.memory));
    return setup;
  }
  ~TcpWithMemory() override {
    for (const std::string& file : files_) unlink(file.c_str());
  }
  std::set<std::string> files_;
};

TEST_F(TcpWithMemory, TheHubsSuccessorOnItsNodeIsHub) {
  exchange::Setup first = Remembering(0, port_);
  cluster_.Add(first);
  cluster_.Add(SetupOf(Name(1), At(relay_.port())));
  cluster_.Add(SetupOf(Name(2), At(relay_.port())));
  ASSERT_TRUE(cluster_.UntilAllHave(Name(0)));
  cluster_.Kill(0);
  first.self.incarnation = 2;
  cluster_.Add(first);
  // Not the first in line, although it has waited as long.
  ASSERT_TRUE(cluster_.UntilAllHave(Name(0)));
  EXPECT_EQ(cluster_.Hubs(), 1);
  const std::vector<Peer> peers = cluster_[1].mailbox.Peers();
  for (const Peer& peer : peers)
    if (peer.hub) {
      EXPECT_EQ(peer.incarnation, 2u);
    }
}

TEST_F(TcpWithMemory, ASuccessorFindsTheHubAlthoughTheMeetingPlaceIsGone) {
  cluster_.Add(SetupOf(Name(0), At(port_)));
  ASSERT_TRUE(cluster_.Until([&] { return cluster_[0].IsHub(); }));
  cluster_.Add(SetupOf(Name(1), At(relay_.port())));
  ASSERT_TRUE(cluster_.UntilAllHave(Name(0)));
  exchange::Setup second = Remembering(2, relay_.port());
  cluster_.Add(second);
  ASSERT_TRUE(cluster_.UntilAllHave(Name(0)));
  cluster_.Kill(0);
  ASSERT_TRUE(cluster_.UntilAllHave(Name(1)));
  // What it knows by now is on disk within a second.
  ASSERT_TRUE(cluster_.Until([&] {
    FILE* const file = std::fopen(second.directory.PathOf(second.memory).c_str(), "rb");
    if (!file) return false;
    char bytes[4096];
    const std::string content(bytes, std::fread(bytes, 1, sizeof(bytes), file));
    std::fclose(file);
    return content.find(Name(1)) != std::string::npos;
  }));
  cluster_.Kill(2);
  second.self.incarnation = 2;
  cluster_.Add(second);
  ASSERT_TRUE(cluster_.UntilAllHave(Name(1)));
}

TEST_F(Tcp, AStoppedHubIsFollowedAndGivesWayWhenItGoesOn) {
  ASSERT_NO_FATAL_FAILURE(Start(4));
  cluster_[0].stopped = true;
  ASSERT_TRUE(cluster_.Until(
      [&] { return cluster_[1].IsHub() && cluster_[2].HubNode() == Name(1) && cluster_[3].HubNode() == Name(1); }));
  EXPECT_TRUE(cluster_[0].IsHub()) << "it knows nothing of it";
  cluster_[0].stopped = false;
  ASSERT_TRUE(cluster_.UntilAllHave(Name(1)));
  EXPECT_EQ(cluster_.Hubs(), 1);
}

TEST_F(Tcp, OfTwoHubsTheOneWithMoreMembersStays) {
  const std::uint16_t other_port = FreePort();
  Relay way(other_port);  // from the first hub to the other one; cut for now
  way.SetTarget(FreePort());
  exchange::Setup first = SetupOf(Name(0), At(port_));
  first.address.more_ports = {way.port()};
  cluster_.Add(first);
  cluster_.Add(SetupOf(Name(1), At(relay_.port())));
  cluster_.Add(SetupOf(Name(2), At(relay_.port())));
  cluster_.Add(SetupOf("a-hub", At(other_port)));
  Relay to_other(other_port);
  cluster_.Add(SetupOf("a-member", At(to_other.port())));
  ASSERT_TRUE(cluster_.Until([&] { return cluster_[0].ConnectedPeers() == 2 && cluster_[3].ConnectedPeers() == 1; }));
  EXPECT_EQ(cluster_.Hubs(), 2);
  way.SetTarget(other_port);
  ASSERT_TRUE(cluster_.UntilAllHave(Name(0)));
  EXPECT_EQ(cluster_.Hubs(), 1);
}

TEST_F(Tcp, AnOvertakenLeaderOfANodeIsRefused) {
  ASSERT_NO_FATAL_FAILURE(Start(2));
  exchange::Setup newer = SetupOf(Name(1), At(relay_.port()));
  newer.self.incarnation = 5;
  cluster_.Add(newer);
  ASSERT_TRUE(cluster_.Until([&] {
    const std::vector<Peer> peers = cluster_[0].mailbox.Peers();
    return peers.size() == 1 && peers[0].incarnation == 5 && peers[0].connected;
  }));
  cluster_[0].Take();
  // The older one calls again and again and is not let in.
  const std::uint64_t joined = cluster_[0].mailbox.counters().joined;
  const std::uint64_t bytes = cluster_[0].mailbox.counters().bytes_in;
  ASSERT_TRUE(cluster_.Until([&] { return cluster_[0].mailbox.counters().bytes_in > bytes + 1'000; }));
  EXPECT_EQ(cluster_[0].mailbox.counters().joined, joined);
  EXPECT_TRUE(cluster_[0].Take().empty());
}

TEST_F(Tcp, RankZerosNodeListensWhereTheAddressIsNobodys) {
  // TEST-NET-1 of RFC 5737 stands for a service's address, which leads to the node with rank 0.
  exchange::Setup setup = SetupOf(Name(0), "tcp://192.0.2.1:" + std::to_string(port_));
  setup.self.has_rank_zero = true;
  cluster_.Add(setup);
  ASSERT_TRUE(cluster_.Until([&] { return cluster_[0].IsHub(); }));
  cluster_.Add(SetupOf(Name(1), At(relay_.port())));
  EXPECT_TRUE(cluster_.UntilAllHave(Name(0)));
}

TEST_F(Tcp, WhoCallsBySeveralWaysAtOnceJoinsOnce) {
  Relay another(port_);
  Faults faults;
  faults.delay_ns = 100'000'000;  // time enough for both calls to be under way
  relay_.Set(faults);
  another.Set(faults);
  cluster_.Add(SetupOf(Name(0), At(port_)));
  ASSERT_TRUE(cluster_.Until([&] { return cluster_[0].IsHub(); }));
  exchange::Setup setup = SetupOf(Name(1), At(relay_.port()));
  setup.timing.connect = setup.timing.handshake = 5'000'000'000;
  setup.address.more_ports = {another.port()};
  cluster_.Add(setup);
  ASSERT_TRUE(cluster_.Until([&] {
    const std::vector<Peer> peers = cluster_[0].mailbox.Peers();
    return !peers.empty() && peers[0].clock_error_ns >= 0;  // it has been a member for some round trips
  }));
  EXPECT_EQ(relay_.called(), 1u);
  EXPECT_EQ(another.called(), 1u);
  EXPECT_EQ(cluster_[0].mailbox.counters().joined, 1u);
  EXPECT_EQ(cluster_[0].mailbox.counters().left, 0u);
}

TEST_F(Tcp, AStrangersPortIsPassedOver) {
  // Somebody else's server, which takes connections and never says a word of ours.
  const std::uint16_t silent = FreePort();
  Relay stranger(silent);
  exchange::Setup setup = SetupOf(Name(0), At(stranger.port()));
  setup.address.more_ports = {port_};
  cluster_.Add(setup);
  setup.self.node = Name(1);
  cluster_.Add(setup);
  ASSERT_TRUE(
      cluster_.Until([&] { return cluster_[0].Connected() && cluster_[1].Connected() && cluster_.Hubs() == 1; }));
}

TEST_F(Tcp, AWrongTokenIsReportedOnceAndHasNoEffect) {
  ASSERT_NO_FATAL_FAILURE(Start(2));
  exchange::Setup wrong = SetupOf(Name(9), At(relay_.port()));
  wrong.tokens = {TokenOfSecret("another")};
  cluster_.Add(wrong);
  ASSERT_TRUE(cluster_.Until([&] { return cluster_[0].mailbox.counters().strangers_refused > 3; }));
  const std::vector<std::string> lines = cluster_[0].mailbox.TakeLines();
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("token"), std::string::npos) << lines[0];
  EXPECT_FALSE(cluster_[2].Connected());
  EXPECT_EQ(cluster_[0].ConnectedPeers(), 1);
}

TEST_F(Tcp, OneOfSeveralTokensIsEnough) {
  exchange::Setup hub = SetupOf(Name(0), At(port_)), member = SetupOf(Name(1), At(relay_.port()));
  hub.tokens = {TokenOfSecret("strong"), TokenOfSecret("weak")};
  member.tokens = {TokenOfSecret("weak")};
  cluster_.Add(hub);
  cluster_.Add(member);
  EXPECT_TRUE(cluster_.UntilAllHave(Name(0)));
}

TEST_F(Tcp, AMemberThatDoesNotReadCostsNoMoreThanItsQueue) {
  ASSERT_NO_FATAL_FAILURE(Start(3));
  cluster_[2].stopped = true;
  // Longer than it is believed to live: it must not matter.
  const std::string body(100'000, 's');
  int sent = 0;
  ASSERT_TRUE(cluster_.Until([&] {
    if (sent < 1000) sent += cluster_[0].mailbox.Send("*", Type::kSummary, body);
    cluster_[1].Take();
    return cluster_[0].mailbox.counters().summaries_dropped > 0 || cluster_[0].ConnectedPeers() == 1;
  }));
  cluster_[2].stopped = false;
  ASSERT_TRUE(cluster_.UntilAllHave(Name(0)));
}

TEST_F(Tcp, ClocksAreComparedAndTheErrorIsHonest) {
  testing::Faults faults;
  faults.delay_ns = 5'000'000;
  faults.back_delay_ns = 15'000'000;  // one way is longer than the other: the worst that the method can meet
  relay_.Set(faults);
  ASSERT_NO_FATAL_FAILURE(Start(2));
  // Both read the same clock, so that the truth is 0.
  ASSERT_TRUE(cluster_.Until([&] {
    for (std::size_t i = 0; i < 2; ++i)
      for (const Peer& peer : cluster_[i].mailbox.Peers())
        if (peer.clock_error_ns < 0) return false;
    return true;
  }));
  for (std::size_t i = 0; i < 2; ++i) {
    for (const Peer& peer : cluster_[i].mailbox.Peers()) {
      EXPECT_LE(std::abs(peer.clock_offset_ns), peer.clock_error_ns);
      EXPECT_GE(peer.clock_error_ns, 12'000'000) << "25 ms there and back";
      EXPECT_LT(peer.clock_error_ns, 1'000'000'000);
    }
  }
  EXPECT_EQ(cluster_[1].mailbox.Peers().at(0).hub, true);
}

TEST_F(Tcp, AWayThatSwallowsEverythingIsLeft) {
  ASSERT_NO_FATAL_FAILURE(Start(3));
  testing::Faults faults;
  faults.swallow = true;
  relay_.Set(faults);
  // No connection ends, and nothing comes any more. There is another way to the hub: the port of its own.
  ASSERT_TRUE(cluster_.Until(
      [&] { return cluster_[1].mailbox.counters().left > 0 && cluster_[2].mailbox.counters().left > 0; }));
  ASSERT_TRUE(
      cluster_.Until([&] { return cluster_[1].Connected() && cluster_[2].Connected() && cluster_.Hubs() == 1; }));
}

}  // namespace
}  // namespace ncclwatch::exchange
