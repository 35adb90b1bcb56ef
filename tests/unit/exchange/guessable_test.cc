// By which token a peer was proved goes with all that it says; who has shown the guessable one takes no place from who
// has shown a better one.
#include <gtest/gtest.h>

#include "tests/unit/exchange/cluster.h"
#include "tests/unit/exchange/relay.h"

namespace ncclwatch::exchange {
namespace {

using testing::Cluster;
using testing::FreePort;
using testing::Name;
using testing::Relay;
using testing::SetupOf;

class GuessableToken : public ::testing::Test {
 protected:
  GuessableToken() : port_(FreePort()), relay_(port_) {
    cluster_.Add(Of(Name(0), port_, false));
    cluster_.Add(Of(Name(1), relay_.port(), false));
  }
  void SetUp() override { ASSERT_TRUE(cluster_.UntilAllHave(Name(0))); }
  exchange::Setup Of(const std::string& node, std::uint16_t port, bool stranger) const {
    exchange::Setup setup = SetupOf(node, "tcp://127.0.0.1:" + std::to_string(port));
    setup.tokens = {TokenOfJob("job")};
    if (!stranger) setup.tokens.insert(setup.tokens.begin(), TokenOfSecret("secret"));
    return setup;
  }
  std::vector<Message> Until(std::size_t leader, Type type) {
    std::vector<Message> found;
    cluster_.Until([&] {
      for (Message& message : cluster_[leader].Take())
        if (message.type == type) found.push_back(std::move(message));
      return !found.empty();
    });
    return found;
  }

  const std::uint16_t port_;
  Relay relay_;
  Cluster cluster_;
};

TEST_F(GuessableToken, GoesWithEveryMessageAndWithThePeer) {
  cluster_[0].Take();
  cluster_.Add(Of(Name(2), relay_.port(), true));
  ASSERT_TRUE(cluster_.UntilAllHave(Name(0)));
  EXPECT_FALSE(cluster_[1].mailbox.status().guessable);
  EXPECT_TRUE(cluster_[2].mailbox.status().guessable);
  const std::vector<Message> joined = Until(0, Type::kJoined);
  ASSERT_EQ(joined.size(), 1u);
  EXPECT_TRUE(joined[0].guessable);
  for (const Peer& peer : cluster_[0].mailbox.Peers()) EXPECT_EQ(peer.guessable, peer.node == Name(2));
  for (const std::size_t from : {1u, 2u}) {
    cluster_[from].mailbox.Send("", Type::kAction, "to the hub");
    const std::vector<Message> heard = Until(0, Type::kAction);
    ASSERT_EQ(heard.size(), 1u);
    EXPECT_EQ(heard[0].guessable, from == 2) << from;
    cluster_[0].mailbox.Send(Name(static_cast<int>(from)), Type::kVerdict, "from the hub");
    const std::vector<Message> reported = Until(from, Type::kVerdict);
    ASSERT_EQ(reported.size(), 1u);
    EXPECT_EQ(reported[0].guessable, from == 2) << from;
  }
}

TEST_F(GuessableToken, LetsNobodySpeakToOthersThroughTheHub) {
  cluster_.Add(Of(Name(2), relay_.port(), true));
  ASSERT_TRUE(cluster_.UntilAllHave(Name(0)));
  cluster_[1].Take();
  const std::uint64_t refused = cluster_[0].mailbox.counters().messages_refused;
  cluster_[2].mailbox.Send("*", Type::kAction, "to all");
  cluster_[2].mailbox.Send(Name(1), Type::kVerdict, "to one");
  ASSERT_TRUE(cluster_.Until([&] { return cluster_[0].mailbox.counters().messages_refused == refused + 2; }));
  cluster_[0].mailbox.Send(Name(1), Type::kFetch, "later");
  Until(1, Type::kFetch);
  for (const Message& message : cluster_[1].Take()) EXPECT_NE(message.from, Name(2));
}

TEST_F(GuessableToken, TakesNobodysName) {
  exchange::Setup thief = Of(Name(1), relay_.port(), true);
  thief.self.incarnation = 1000;
  cluster_.Add(thief);
  const std::uint64_t called = relay_.called();
  ASSERT_TRUE(cluster_.Until([&] { return relay_.called() > called + 2; })) << "it tries";
  EXPECT_FALSE(cluster_[2].Connected());
  EXPECT_TRUE(cluster_[1].Connected());
  EXPECT_EQ(cluster_[0].mailbox.counters().left, 0u);
}

TEST_F(GuessableToken, GivesANameBackToWhoHasShownABetterOne) {
  exchange::Setup thief = Of(Name(2), relay_.port(), true);
  thief.self.incarnation = 1000;
  cluster_.Add(thief);
  ASSERT_TRUE(cluster_.UntilAllHave(Name(0)));
  cluster_[2].stopped = true;
  cluster_.Add(Of(Name(2), relay_.port(), false));
  ASSERT_TRUE(cluster_.Until([&] { return cluster_[3].Connected(); }));
  for (const Peer& peer : cluster_[0].mailbox.Peers()) EXPECT_FALSE(peer.guessable) << peer.node;
}

// With more members than the hub has: between equals the hub would give way.
TEST_F(GuessableToken, MakesNoHubGiveWay) {
  const std::uint16_t elsewhere = FreePort();
  Relay away(elsewhere);  // nobody is there yet
  exchange::Setup rival = Of(Name(5), away.port(), true);
  rival.address.more_ports = {FreePort()};
  cluster_.Add(rival);
  ASSERT_TRUE(cluster_.Until([&] { return cluster_[2].IsHub(); }));
  for (int i = 6; i < 9; ++i) cluster_.Add(Of(Name(i), rival.address.more_ports[0], true));
  ASSERT_TRUE(cluster_.Until([&] { return cluster_[2].ConnectedPeers() == 3; }));
  away.SetTarget(port_);
  const std::uint64_t called = away.called();
  ASSERT_TRUE(cluster_.Until([&] { return away.called() > called + 1 || !cluster_[2].IsHub(); }));
  EXPECT_TRUE(cluster_[0].IsHub());
  EXPECT_EQ(cluster_[1].HubNode(), Name(0));
}

}  // namespace
}  // namespace ncclwatch::exchange
