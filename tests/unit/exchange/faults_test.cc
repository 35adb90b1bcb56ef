// A hub and members with nothing but a bad network between them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <map>
#include <random>

#include "tests/unit/exchange/cluster.h"
#include "tests/unit/exchange/relay.h"
#include "watchdog/exchange/tcp/acceptor.h"
#include "watchdog/exchange/tcp/dialer.h"
#include "watchdog/exchange/tcp/hub.h"
#include "watchdog/exchange/tcp/uplink.h"

namespace ncclwatch::exchange {
namespace {

using testing::Faults;
using testing::Name;
using testing::Relay;
using testing::SetupOf;

// A hub that stays one, at one address.
struct OnlyHub : Acceptor::Handler {
  explicit OnlyHub(Loop* loop)
      : context(SetupOf("hub", "tcp://127.0.0.1:1"), loop, &mailbox), acceptor(&context, this), hub(&context, 1) {
    context.port = acceptor.Listen(0);
  }
  void OnJoin(std::unique_ptr<Connection> connection, const Join& join) override {
    hub.Adopt(std::move(connection), join, Now());
  }
  void Drive() {
    acceptor.Tick(Now());
    hub.Tick(Now());
    while (const auto outgoing = mailbox.TakeOutgoing()) hub.SendOwn(*outgoing);
  }
  Mailbox mailbox;
  TcpContext context;
  Acceptor acceptor;
  Hub hub;
};

// A member that knows one way only.
struct OnlyMember : Dialer::Handler, Uplink::Handler {
  OnlyMember(Loop* loop, const std::string& name, std::uint16_t port)
      : way(*Endpoint::Parse("127.0.0.1", port)),
        context(SetupOf(name, "tcp://127.0.0.1:1"), loop, &mailbox),
        dialer(&context, this) {}
  Join OwnJoin() override { return {false, 1, 1, 0, 1, context.setup.self.node, "", joined}; }
  void OnWelcome(std::unique_ptr<Connection> connection, const Welcome& welcome) override {
    uplink = std::make_unique<Uplink>(&context, this, std::move(connection), welcome);
    dialer.Stop();
    ++joined;
  }
  void OnElsewhere(const Endpoint&, const Redirect&) override {}
  void OnYield(const Endpoint&) override {}
  void OnHubLost(Uplink*, const std::string&, const std::optional<Redirect>&) override {
    uplink.reset();
    silent = false;
  }
  void OnHubSilent(Uplink*) override { silent = true; }
  void OnHubHeard(Uplink*) override { silent = false; }
  bool HasHub() const { return uplink && !silent; }
  void OnSuccessionList(const SuccessionList&) override {}
  void Drive() {
    if (uplink) uplink->Tick(Now());
    if (!uplink) dialer.Aim({way}, 50'000'000);
    dialer.Tick(Now());
    while (uplink && uplink->HasRoom()) {
      const auto outgoing = mailbox.TakeOutgoing();
      if (!outgoing) break;
      uplink->Send(*outgoing);
    }
  }
  const Endpoint way;
  Mailbox mailbox;
  TcpContext context;
  Dialer dialer;
  std::unique_ptr<Uplink> uplink;
  bool silent = false;
  std::uint32_t joined = 0;
};

class BadNetwork : public ::testing::Test {
 protected:
  BadNetwork() : loop_(Loop::Make({})), hub_(loop_.get()), relay_(hub_.context.port) {
    for (int i = 1; i <= 2; ++i) members_.push_back(std::make_unique<OnlyMember>(loop_.get(), Name(i), relay_.port()));
  }
  template <typename Holds>
  bool Until(Holds holds) {
    for (const std::int64_t deadline = Now() + 60'000'000'000; Now() < deadline;) {
      hub_.Drive();
      for (const auto& member : members_) member->Drive();
      loop_->Wait(500'000);
      if (holds()) return true;
    }
    return false;
  }
  // Every body says what it must be: sender, number, and so many times a letter.
  static std::string Body(const std::string& from, int number) {
    return from + " " + std::to_string(number) + " :" + std::string(static_cast<std::size_t>(number * 37 % 3000), 'x');
  }
  void Check(Mailbox* mailbox, const std::string& at) {
    while (const auto message = mailbox->Receive()) {
      if (message->type != Type::kRecords) continue;
      char from[32];
      int number = 0;
      ASSERT_EQ(std::sscanf(message->body.c_str(), "%31s %d", from, &number), 2);
      EXPECT_EQ(message->from, from);
      EXPECT_EQ(message->body, Body(from, number));
      int& last = last_[std::pair(std::string(from), at)];
      EXPECT_GT(number, last) << "in order, and never twice";
      last = number;
      ++came_;
    }
  }

  std::unique_ptr<Loop> loop_;
  OnlyHub hub_;
  Relay relay_;
  std::vector<std::unique_ptr<OnlyMember>> members_;
  std::map<std::pair<std::string, std::string>, int> last_;
  int came_ = 0;
};

TEST_F(BadNetwork, NothingThatWasAlteredRepeatedOrLeftOutArrives) {
  Faults faults;
  faults.corrupted = faults.repeated = faults.left_out = 15;
  faults.cut = 5;
  relay_.Set(faults);
  int sent = 0;
  ASSERT_TRUE(Until([&] {
    if (++sent % 2 == 0)
      for (int i = 1; i <= 2; ++i) {
        members_[static_cast<std::size_t>(i - 1)]->mailbox.Send("", Type::kRecords, Body(Name(i), sent));
        hub_.mailbox.Send(Name(i), Type::kRecords, Body("hub", sent));
      }
    Check(&hub_.mailbox, "hub");
    for (int i = 1; i <= 2; ++i) Check(&members_[static_cast<std::size_t>(i - 1)]->mailbox, Name(i));
    return relay_.damaged() > 100 && came_ > 500;
  })) << relay_.damaged()
      << " pieces damaged, " << came_ << " messages came";
  const std::uint64_t refused = hub_.context.counters.messages_refused +
                                members_[0]->context.counters.messages_refused +
                                members_[1]->context.counters.messages_refused;
  EXPECT_GT(refused, 20u);
  EXPECT_GT(members_[0]->joined + members_[1]->joined, 20u);
  relay_.Set({});
  EXPECT_TRUE(Until([&] { return members_[0]->uplink && members_[1]->uplink && hub_.hub.claim().members == 2; }));
}

TEST_F(BadNetwork, SlowIsNotDead) {
  Faults faults;
  faults.delay_ns = 100'000'000;
  relay_.Set(faults);
  ASSERT_TRUE(Until([&] { return members_[0]->uplink && members_[1]->uplink; }));
  ASSERT_TRUE(members_[0]->mailbox.Send("*", Type::kRecords, Body(Name(1), 1)));
  ASSERT_TRUE(Until([&] {
    Check(&hub_.mailbox, "hub");
    Check(&members_[1]->mailbox, Name(2));
    return came_ == 2;
  }));
  EXPECT_EQ(members_[0]->joined, 1u) << "no connection was given up for being slow";
}

TEST_F(BadNetwork, AWayThatSwallowsEverythingIsNoticedByBothEnds) {
  ASSERT_TRUE(Until([&] { return hub_.hub.claim().members == 2; }));
  Faults faults;
  faults.swallow = true;
  relay_.Set(faults);
  ASSERT_TRUE(Until([&] { return hub_.hub.claim().members == 0 && !members_[0]->HasHub() && !members_[1]->HasHub(); }));
  relay_.Set({});
  EXPECT_TRUE(Until([&] { return hub_.hub.claim().members == 2; }));
}

TEST_F(BadNetwork, WhoIsHeardAgainAfterASilenceNeedsNoNewConnection) {
  ASSERT_TRUE(Until([&] { return members_[0]->HasHub() && members_[1]->HasHub(); }));
  Faults faults;
  faults.delay_ns = 1'500'000'000;  // longer than anybody's patience
  relay_.Set(faults);
  ASSERT_TRUE(Until([&] { return hub_.hub.claim().members == 0 && !members_[0]->HasHub() && !members_[1]->HasHub(); }));
  ASSERT_TRUE(members_[0]->mailbox.Send("", Type::kRecords, Body(Name(1), 1)));
  ASSERT_TRUE(hub_.mailbox.Send(Name(2), Type::kRecords, Body("hub", 1)));
  ASSERT_TRUE(Until([&] {
    Check(&hub_.mailbox, "hub");
    Check(&members_[1]->mailbox, Name(2));
    return came_ == 2 && hub_.hub.claim().members == 2 && members_[0]->HasHub() && members_[1]->HasHub();
  }));
  EXPECT_EQ(members_[0]->joined + members_[1]->joined, 2u);
  EXPECT_EQ(relay_.called(), 2u);
}

TEST_F(BadNetwork, OneThatTalksButDoesNotReadIsLetGoAndCostsItsQueueOnly) {
  ASSERT_TRUE(Until([&] { return hub_.hub.claim().members == 2; }));
  // Its own messages still come through; what is for it piles up on the way.
  Faults faults;
  faults.back_delay_ns = 3600'000'000'000;
  relay_.Set(faults);
  const std::string body(50'000, 's');
  const auto began = Now();
  ASSERT_TRUE(Until([&] {
    if (Now() - began < 20'000'000'000) hub_.mailbox.Send("*", Type::kSummary, body);
    hub_.mailbox.Receive();
    return hub_.context.counters.left > 0;
  }));
}

}  // namespace
}  // namespace ncclwatch::exchange
