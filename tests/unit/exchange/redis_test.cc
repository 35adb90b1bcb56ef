// Leaders over a real redis-server.
#include <gtest/gtest.h>
#include <signal.h>

#include <set>

#include "tests/unit/exchange/cluster.h"
#include "tests/unit/exchange/redis_server.h"
#include "tests/unit/exchange/relay.h"
#include "watchdog/exchange/redis/authenticator.h"
#include "watchdog/exchange/redis/kinds.h"

namespace ncclwatch::exchange {
namespace {

using testing::Cluster;
using testing::Leader;
using testing::Name;
using testing::RedisServer;
using testing::Relay;
using testing::SetupOf;

TEST(ReplyReader, RepliesComeWholeHoweverTheyAreCut) {
  const std::string bytes = "+OK\r\n-ERR no\r\n:42\r\n$-1\r\n*-1\r\n$3\r\na\r\n\r\n*2\r\n*1\r\n$1\r\nx\r\n:7\r\n*0\r\n";
  for (std::size_t step = 1; step <= bytes.size(); ++step) {
    ReplyReader reader;
    std::vector<std::unique_ptr<Reply>> replies;
    for (std::size_t at = 0; at < bytes.size(); at += step) {
      ASSERT_TRUE(reader.Feed(std::string_view(bytes).substr(at, step)));
      while (auto reply = reader.Take()) replies.push_back(std::move(reply));
    }
    ASSERT_EQ(replies.size(), 8u) << step;
    EXPECT_EQ(replies[0]->text, "OK");
    EXPECT_TRUE(replies[1]->IsError());
    EXPECT_EQ(replies[2]->number, 42);
    EXPECT_EQ(replies[3]->kind, Reply::Kind::kNil);
    EXPECT_EQ(replies[4]->kind, Reply::Kind::kNil);
    EXPECT_EQ(replies[5]->text, "a\r\n");
    EXPECT_EQ(replies[6]->list.at(0)->list.at(0)->text, "x");
    EXPECT_EQ(replies[6]->list.at(1)->number, 7);
    EXPECT_TRUE(replies[7]->list.empty());
  }
}

TEST(ReplyReader, WhatIsNoReplyEndsIt) {
  for (const std::string_view bytes :
       {std::string_view("HTTP/1.1 400 Bad Request\r\n\r\n"), std::string_view("*99999999999\r\n"),
        std::string_view("*1000000\r\n"), std::string_view("$-5\r\n"), std::string_view("\0\0\0\0\r\n", 6)}) {
    ReplyReader reader;
    reader.Feed(bytes);
    while (reader.Take()) {
    }
    EXPECT_TRUE(reader.Failed()) << bytes;
    EXPECT_FALSE(reader.Feed("+OK\r\n"));
  }
}

// A few bytes announce lists of lists: what they would take is counted before it is taken.
TEST(ReplyReader, ManyElementsEndIt) {
  std::string nested;
  for (int i = 0; i < 5; ++i) nested += "*30000\r\n";
  std::string flat = "*60000\r\n";
  for (int i = 0; i < 60000; ++i) flat += "*2\r\n:1\r\n:2\r\n";
  for (const std::string& bytes : {nested, flat}) {
    ReplyReader reader;
    reader.Feed(bytes);
    EXPECT_FALSE(reader.Take());
    EXPECT_TRUE(reader.Failed());
    EXPECT_STREQ(reader.why(), "sends more at once than is taken");
  }
  // Counted for each reply.
  ReplyReader reader;
  for (int i = 0; i < 10; ++i) {
    std::string one = "*60000\r\n";
    for (int n = 0; n < 60000; ++n) one += ":1\r\n";
    ASSERT_TRUE(reader.Feed(one));
    const auto reply = reader.Take();
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->list.size(), 60000u);
  }
}

TEST(ReplyReader, ManyBytesEndIt) {
  const std::string part(1 << 20, 'x');
  ReplyReader texts, text;
  texts.Feed("*1000\r\n");
  text.Feed("$1000000000\r\n");
  std::size_t taken = 0, one = 0;
  while (texts.Feed("$1048576\r\n" + part + "\r\n") && !texts.Take() && !texts.Failed()) taken += part.size();
  while (text.Feed(part) && !text.Take() && !text.Failed()) one += part.size();
  for (const std::size_t bytes : {taken, one}) {
    EXPECT_LE(bytes, ReplyReader::kMostBytes + 2 * part.size());
    EXPECT_GE(bytes, ReplyReader::kMostBytes / 2);
  }
  EXPECT_STREQ(texts.why(), "sends more at once than is taken");
  EXPECT_STREQ(text.why(), "sends more at once than is taken");
}

Note SomeNote() { return {17, "node", "in", 3, 4, 5, 6, "body"}; }

TEST(MessageAuthenticator, NobodyElseCanReadIt) {
  const MessageAuthenticator seal(Keys({TokenOfSecret("t")}), "job");
  Note note = SomeNote();
  note.body = "--api-key=secret";
  const std::string one = seal.Close(note), other = seal.Close(note);
  EXPECT_EQ(one.find("api"), std::string::npos);
  EXPECT_EQ(one.find(note.from), std::string::npos);
  EXPECT_NE(one.substr(30), other.substr(30)) << "the same twice";
  EXPECT_FALSE(IsOfOtherVersion(one));
  EXPECT_TRUE(IsOfOtherVersion("\1 signed only"));
}

TEST(MessageAuthenticator, OpensWhatItClosedAndNothingElse) {
  const Keys keys({TokenOfSecret("a"), TokenOfSecret("b")}), second({TokenOfSecret("b")}), other({TokenOfSecret("c")});
  const MessageAuthenticator seal(keys, "job");
  std::string bytes = seal.Close(SomeNote());
  const auto note = seal.Open(bytes);
  ASSERT_TRUE(note);
  EXPECT_EQ(note->type, 17);
  EXPECT_EQ(note->from + note->channel + note->body, "nodeinbody");
  EXPECT_TRUE(note->incarnation == 3 && note->number == 4 && note->sent_ms == 5 && note->term == 6);
  EXPECT_TRUE(seal.Open(MessageAuthenticator(second, "job").Close(SomeNote()))) << "any of the tokens";
  EXPECT_FALSE(seal.Open(MessageAuthenticator(other, "job").Close(SomeNote())));
  EXPECT_FALSE(MessageAuthenticator(keys, "another job").Open(bytes));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    EXPECT_FALSE(seal.Open(bytes.substr(0, i)));
    bytes[i] = static_cast<char>(bytes[i] ^ 2);
    EXPECT_FALSE(seal.Open(bytes));
    bytes[i] = static_cast<char>(bytes[i] ^ 2);
  }
}

TEST(Replays, EachMessageOnce) {
  Replays replays;
  Note note = SomeNote();
  EXPECT_TRUE(replays.IsNew(note));
  EXPECT_FALSE(replays.IsNew(note));
  note.number = 3;
  EXPECT_FALSE(replays.IsNew(note));
  note.channel = "all";
  EXPECT_TRUE(replays.IsNew(note)) << "channels are read apart";
  note.incarnation = 4;
  note.number = 1;
  EXPECT_TRUE(replays.IsNew(note));
  note.incarnation = 3;
  note.number = 99;
  EXPECT_FALSE(replays.IsNew(note)) << "a leader that was followed";
}

class Redis : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!RedisServer::IsInstalled()) GTEST_SKIP() << "no redis-server here";
    server_ = std::make_unique<RedisServer>();
  }
  exchange::Setup At(int number, std::uint16_t port = 0) {
    return SetupOf(Name(number), "redis://127.0.0.1:" + std::to_string(port ? port : server_->port()));
  }
  void Start(int leaders) {
    for (int i = 0; i < leaders; ++i) {
      cluster_.Add(At(i));
      // So that node-00 is hub.
      ASSERT_TRUE(cluster_.Until([&] { return cluster_[static_cast<std::size_t>(i)].Connected(); }));
    }
    ASSERT_TRUE(cluster_.UntilAllHave(Name(0)));
  }
  std::vector<std::string> Keys() {
    std::vector<std::string> keys;
    const auto reply = server_->Ask({"KEYS", "*"});
    for (const auto& key : reply->list) keys.push_back(key->text);
    return keys;
  }
  std::string KeyOf(const std::string& channel) {
    for (const std::string& key : Keys())
      if (key.ends_with(":" + channel)) return key;
    return "";
  }
  std::unique_ptr<RedisServer> server_;
  Cluster cluster_;
};

TEST_F(Redis, LeadersMeetAndOneIsHub) {
  ASSERT_NO_FATAL_FAILURE(Start(4));
  EXPECT_EQ(cluster_.Hubs(), 1);
  std::set<std::string> joined;
  for (const Message& message : cluster_[0].Take())
    if (message.type == Type::kJoined) joined.insert(message.from);
  EXPECT_EQ(joined, (std::set<std::string>{Name(1), Name(2), Name(3)}));
  ASSERT_TRUE(cluster_.Until([&] {
    for (const Peer& peer : cluster_[0].mailbox.Peers())
      if (peer.host != "host of " + peer.node || peer.clock_error_ns < 0) return false;
    return true;
  }));
  for (const Peer& peer : cluster_[0].mailbox.Peers()) {
    EXPECT_LE(std::abs(peer.clock_offset_ns), peer.clock_error_ns);
    EXPECT_LT(peer.clock_error_ns, 1'000'000'000);
  }
  for (std::size_t i = 1; i < 4; ++i) {
    const std::vector<Message> reported = cluster_[i].Take();
    ASSERT_EQ(reported.size(), 1u);
    EXPECT_EQ(reported[0].from, Name(0));
    ASSERT_TRUE(cluster_.Until([&] { return cluster_[i].mailbox.Peers().size() == 1; }));
    EXPECT_TRUE(cluster_[i].mailbox.Peers()[0].hub);
  }
}

TEST_F(Redis, MessagesReachWhomTheyAreFor) {
  ASSERT_NO_FATAL_FAILURE(Start(3));
  for (std::size_t i = 0; i < 3; ++i) cluster_[i].Take();
  std::string large(kMaxBody, 'x');
  ASSERT_TRUE(cluster_[1].mailbox.Send("", Type::kSummary, "to the hub"));
  ASSERT_TRUE(cluster_[0].mailbox.Send(Name(2), Type::kFetch, "to one"));
  ASSERT_TRUE(cluster_[2].mailbox.Send(Name(1), Type::kRecords, "to another member"));
  ASSERT_TRUE(cluster_[1].mailbox.Send("*", Type::kVerdict, "to all"));
  ASSERT_TRUE(cluster_[0].mailbox.Send("*", Type::kAction, "from the hub"));
  ASSERT_TRUE(cluster_[0].mailbox.Send("", Type::kSummary, "to itself"));
  ASSERT_TRUE(cluster_[2].mailbox.Send("", Type::kRecords, large));
  std::vector<std::set<std::string>> came(3);
  const std::vector<std::set<std::string>> expected = {
      {"node-01 to the hub", "node-01 to all", "node-00 to itself", "node-02 " + large},
      {"node-02 to another member", "node-00 from the hub"},
      {"node-00 to one", "node-01 to all", "node-00 from the hub"}};
  EXPECT_TRUE(cluster_.Until([&] {
    for (std::size_t i = 0; i < 3; ++i)
      for (const Message& message : cluster_[i].Take())
        EXPECT_TRUE(came[i].insert(message.from + " " + message.body).second);
    return came == expected;
  }));
}

TEST_F(Redis, MessagesOfOneSenderKeepTheirOrder) {
  ASSERT_NO_FATAL_FAILURE(Start(2));
  cluster_[0].Take();
  for (int i = 0; i < 900; ++i) ASSERT_TRUE(cluster_[1].mailbox.Send("", Type::kRecords, std::to_string(i)));
  int next = 0;
  ASSERT_TRUE(cluster_.Until([&] {
    for (const Message& message : cluster_[0].Take()) EXPECT_EQ(message.body, std::to_string(next++));
    return next == 900;
  }));
}

TEST_F(Redis, AHubThatDiesIsFollowed) {
  ASSERT_NO_FATAL_FAILURE(Start(3));
  cluster_.Kill(0);
  ASSERT_TRUE(cluster_.Until([&] { return cluster_[1].IsHub() || cluster_[2].IsHub(); }));
  const std::size_t hub = cluster_[1].IsHub() ? 1 : 2, member = 3 - hub;
  ASSERT_TRUE(cluster_.UntilAllHave(Name(static_cast<int>(hub))));
  EXPECT_EQ(cluster_[member].mailbox.status().term, 2u);
  cluster_[hub].Take();
  ASSERT_TRUE(cluster_[member].mailbox.Send("", Type::kVerdict, "still here"));
  EXPECT_TRUE(cluster_.Until([&] {
    for (const Message& message : cluster_[hub].Take())
      if (message.body == "still here") return true;
    return false;
  }));
}

TEST_F(Redis, AHubThatEndsInOrderIsFollowedBeforeItsLeaseIsOver) {
  ASSERT_NO_FATAL_FAILURE(Start(3));
  cluster_[0].node->Leave(Now());
  ASSERT_TRUE(cluster_.Until([&] { return cluster_[0].node->Idle(); }));
  const std::int64_t left_ns = Now();
  cluster_.Kill(0);
  ASSERT_TRUE(cluster_.Until([&] { return cluster_[1].IsHub() || cluster_[2].IsHub(); }));
  EXPECT_LT(Now() - left_ns, 1'500'000'000);
}

TEST_F(Redis, TheHubsSuccessorOnItsNodeIsHubAtOnce) {
  ASSERT_NO_FATAL_FAILURE(Start(3));
  cluster_.Kill(0);
  exchange::Setup successor = At(0);
  successor.self.incarnation = 2;
  cluster_.Add(successor);
  ASSERT_TRUE(cluster_.Until([&] { return cluster_[3].IsHub(); }));
  ASSERT_TRUE(cluster_.UntilAllHave(Name(0)));
  EXPECT_EQ(cluster_.Hubs(), 1);
  ASSERT_TRUE(cluster_.Until([&] {
    const std::vector<Peer> peers = cluster_[1].mailbox.Peers();
    return peers.size() == 1 && peers[0].incarnation == 2;
  }));
}

TEST_F(Redis, AStoppedHubIsNoneAnyMoreWhenItGoesOn) {
  ASSERT_NO_FATAL_FAILURE(Start(3));
  cluster_[0].stopped = true;
  ASSERT_TRUE(cluster_.Until([&] { return cluster_[1].IsHub() || cluster_[2].IsHub(); }));
  cluster_[0].stopped = false;
  ASSERT_TRUE(cluster_.Until([&] { return !cluster_[0].IsHub() && cluster_[0].Connected(); }));
  EXPECT_TRUE(cluster_.UntilAllHave(cluster_[0].HubNode()));
}

TEST_F(Redis, AServerKilledAndRestartedIsCalledAgainWithPauses) {
  const std::uint16_t port = server_->port();
  Relay relay(port);
  for (int i = 0; i < 3; ++i) {
    cluster_.Add(At(i, relay.port()));
    ASSERT_TRUE(cluster_.Until([&] { return cluster_[static_cast<std::size_t>(i)].Connected(); }));
  }
  ASSERT_TRUE(cluster_.UntilAllHave(Name(0)));
  server_->Kill();
  ASSERT_TRUE(
      cluster_.Until([&] { return !cluster_[0].Connected() && !cluster_[1].Connected() && !cluster_[2].Connected(); }));
  ASSERT_TRUE(cluster_[1].mailbox.Send("", Type::kVerdict, "said meanwhile"));
  const std::uint64_t called = relay.called();
  const std::int64_t until_ns = Now() + 3'000'000'000;
  ASSERT_TRUE(cluster_.Until([&] { return Now() > until_ns; }));
  EXPECT_LE(relay.called() - called, 60u) << "3 leaders in 3 seconds";
  EXPECT_GE(relay.called() - called, 3u);
  server_->Start();
  ASSERT_TRUE(cluster_.UntilAllHave(Name(0))) << "the hub before is the hub after";
  EXPECT_TRUE(cluster_.Until([&] {
    for (const Message& message : cluster_[0].Take())
      if (message.body == "said meanwhile") return true;
    return false;
  }));
}

TEST_F(Redis, AServerThatHangsHoldsUpNobody) {
  ASSERT_NO_FATAL_FAILURE(Start(3));
  server_->Signal(SIGSTOP);
  std::int64_t longest_ns = 0;
  ASSERT_TRUE(cluster_.Until([&] {
    for (std::size_t i = 0; i < 3; ++i) {
      const std::int64_t began_ns = Now();
      cluster_[i].mailbox.Send("*", Type::kSummary, std::string(1000, 's'));
      cluster_[i].Drive();
      longest_ns = std::max(longest_ns, Now() - began_ns);
    }
    return !cluster_[0].Connected() && !cluster_[1].Connected() && !cluster_[2].Connected();
  }));
  EXPECT_LT(longest_ns, 500'000'000) << "nothing waited for the server's 2 s";
  server_->Signal(SIGCONT);
  EXPECT_TRUE(cluster_.UntilAllHave(Name(0)));
}

TEST_F(Redis, EveryKeyIsBoundedAndExpires) {
  ASSERT_NO_FATAL_FAILURE(Start(3));
  for (int i = 0; i < 1000; ++i) {
    cluster_[1].mailbox.Send("*", Type::kSummary, "x");
    cluster_[0].mailbox.Send(Name(2), Type::kSummary, "x");
    cluster_[2].mailbox.Send("", Type::kSummary, "x");
  }
  int came = 0;
  ASSERT_TRUE(cluster_.Until([&] {
    for (std::size_t i = 0; i < 3; ++i) came += static_cast<int>(cluster_[i].Take().size());
    return came >= 4000;
  }));
  const std::vector<std::string> keys = Keys();
  EXPECT_GE(keys.size(), 4u);
  for (const std::string& key : keys) {
    EXPECT_TRUE(key.starts_with("ncclwatch:")) << key;
    const auto left = server_->Ask({"PTTL", key});
    EXPECT_GT(left->number, 0) << key;
    EXPECT_LE(left->number, 60'000) << key;
  }
  const auto length = server_->Ask({"XLEN", KeyOf(kInChannel)});
  EXPECT_LT(length->number, 300) << "what the hub has read is gone";
}

TEST_F(Redis, WhatIsForgedOrRepeatedIsRefused) {
  ASSERT_NO_FATAL_FAILURE(Start(3));
  cluster_[0].mailbox.Send("*", Type::kVerdict, "the only one");
  std::string body;
  ASSERT_TRUE(cluster_.Until([&] {
    for (const Message& message : cluster_[1].Take())
      if (message.type == Type::kVerdict) body += message.body;
    return !body.empty();
  }));
  const std::string all = KeyOf(kAllChannel), own = KeyOf(kNodeChannel + Name(1));
  const auto entries = server_->Ask({"XRANGE", all, "-", "+"});
  ASSERT_FALSE(entries->list.empty());
  const std::string sealed = entries->list.back()->list[1]->list[1]->text;
  const std::uint64_t refused = cluster_[1].mailbox.counters().messages_refused;
  std::string altered = sealed;
  altered[altered.size() / 2] ^= 1;
  int forged = 0;
  for (const std::string_view bytes : {std::string_view(sealed), std::string_view(altered), std::string_view("noise"),
                                       std::string_view(), std::string_view(sealed).substr(0, 20)}) {
    ++forged;
    server_->Ask({"XADD", all, "*", "m", bytes});
  }
  ++forged;
  server_->Ask({"XADD", all, "*", "other", "fields", "and", "more"});
  ++forged;
  server_->Ask({"XADD", KeyOf("hub").substr(0, KeyOf("hub").size() - 3) + kNodeChannel + Name(1), "*", "m", sealed});
  ASSERT_TRUE(cluster_.Until(
      [&] { return cluster_[1].mailbox.counters().messages_refused >= refused + static_cast<unsigned>(forged); }));
  EXPECT_TRUE(cluster_[1].Take().empty());
  EXPECT_TRUE(cluster_[1].Connected());
  EXPECT_EQ(body, "the only one");
}

TEST_F(Redis, AWrongTokenOrPasswordIsReportedAndHasNoEffect) {
  ASSERT_NO_FATAL_FAILURE(Start(2));
  exchange::Setup wrong = At(9);
  wrong.tokens = {TokenOfSecret("another")};
  cluster_.Add(wrong);
  std::vector<std::string> lines;
  ASSERT_TRUE(cluster_.Until([&] { return !(lines = cluster_[2].mailbox.TakeLines()).empty(); }));
  EXPECT_NE(lines[0].find("token"), std::string::npos);
  const std::uint64_t refused = cluster_[0].mailbox.counters().messages_refused;
  ASSERT_TRUE(cluster_.Until([&] { return cluster_[0].mailbox.counters().messages_refused > refused + 20; }));
  EXPECT_TRUE(cluster_[2].mailbox.TakeLines().empty());
  EXPECT_FALSE(cluster_[2].Connected());
  EXPECT_EQ(cluster_[0].ConnectedPeers(), 1);
}

TEST_F(Redis, APasswordOpensWhatIsLocked) {
  RedisServer locked("hunter2");
  exchange::Setup with = At(0, locked.port());
  with.address.password = "hunter2";
  with.address.database = 3;
  cluster_.Add(with);
  with.self.node = Name(1);
  cluster_.Add(with);
  ASSERT_TRUE(cluster_.Until([&] { return cluster_[0].Connected() && cluster_[1].Connected(); }));
  cluster_.Add(At(2, locked.port()));
  const std::int64_t until_ns = Now() + 500'000'000;
  ASSERT_TRUE(cluster_.Until([&] { return Now() > until_ns; }));
  EXPECT_FALSE(cluster_[2].Connected());
}

TEST_F(Redis, SomethingThatIsNoRedisIsLeftAlone) {
  Cluster tcp;
  tcp.Add(SetupOf(Name(5), "tcp://127.0.0.1:" + std::to_string(testing::FreePort())));
  ASSERT_TRUE(tcp.Until([&] { return tcp[0].IsHub(); }));
  cluster_.Add(At(0, tcp[0].setup.address.port));
  ASSERT_TRUE(tcp.Until([&] {
    cluster_[0].Drive();
    return tcp[0].mailbox.counters().strangers_refused >= 3;
  }));
  EXPECT_FALSE(cluster_[0].Connected());
}

}  // namespace
}  // namespace ncclwatch::exchange
