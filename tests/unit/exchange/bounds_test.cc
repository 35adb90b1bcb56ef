// Whoever holds the token and means ill: what it can make a leader keep is bounded, and its terms do not wrap.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/exchange/cluster.h"
#include "tests/unit/exchange/relay.h"
#include "watchdog/exchange/tcp/acceptor.h"
#include "watchdog/exchange/tcp/hub.h"

namespace ncclwatch::exchange {
namespace {

using testing::Cluster;
using testing::FreePort;
using testing::Name;
using testing::SetupOf;

// A peer that proves the token and then says what it likes. It reads only when told to.
class Insider {
 public:
  explicit Insider(std::uint16_t port) : keys_({TokenOfSecret("test")}) {
    fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address));
    fcntl(fd_, F_SETFL, O_NONBLOCK);
    session_.emplace(Session::Side::kDialer, &keys_, *NewNonce());
  }
  ~Insider() { close(fd_); }

  void Read() {
    char bytes[4096];
    for (ssize_t n; (n = recv(fd_, bytes, sizeof(bytes), 0)) >= 0;) {
      if (n == 0) closed_ = true;
      if (n == 0 || !session_->Feed({bytes, static_cast<std::size_t>(n)})) break;
      while (const auto frame = session_->Take()) kinds_.push_back(static_cast<Kind>(frame->kind));
    }
    wire_ += session_->TakeOutput();
    Write();
  }
  void Say(Kind kind, std::string_view head, std::string_view body = {}) {
    session_->MessageAuthenticator(static_cast<std::uint16_t>(kind), head, body, &wire_);
    Write();
  }
  void Write() {
    const ssize_t n = send(fd_, wire_.data(), wire_.size(), MSG_NOSIGNAL);
    if (n > 0) wire_.erase(0, static_cast<std::size_t>(n));
  }
  bool proven() const { return session_->proven(); }
  bool closed() const { return closed_; }
  bool idle() const { return wire_.empty(); }
  bool Heard(Kind kind) const { return std::count(kinds_.begin(), kinds_.end(), kind) > 0; }

 private:
  const Keys keys_;
  std::optional<Session> session_;
  std::string wire_;
  std::vector<Kind> kinds_;
  int fd_;
  bool closed_ = false;
};

Join JoinOf(const std::string& node, std::uint64_t term) { return {false, 1, term, 0, 1, node, "", 1}; }

// A hub with bounds that a test can reach.
struct SmallHub : Acceptor::Handler {
  explicit SmallHub(const Hub::Bounds& bounds)
      : loop(Loop::Make({})),
        context(SetupOf("hub", "tcp://127.0.0.1:1"), loop.get(), &mailbox),
        acceptor(&context, this),
        hub(&context, 1, bounds) {
    context.port = acceptor.Listen(0);
  }
  void OnJoin(std::unique_ptr<Connection> connection, const Join& join) override {
    hub.Adopt(std::move(connection), join, Now());
  }
  template <typename Holds>
  bool Until(Holds holds) {
    for (const std::int64_t deadline = Now() + 30'000'000'000; Now() < deadline;) {
      acceptor.Tick(Now());
      loop->Wait(500'000);
      if (holds()) return true;
    }
    return false;
  }
  // Connected as that node, and let in.
  std::unique_ptr<Insider> Member(const std::string& node) {
    auto insider = std::make_unique<Insider>(context.port);
    Until([&] { return insider->Read(), insider->proven(); });
    insider->Say(Kind::kJoin, JoinOf(node, 1).Encode());
    Until([&] { return insider->Read(), insider->Heard(Kind::kWelcome) || insider->closed(); });
    return insider;
  }
  std::unique_ptr<Loop> loop;
  Mailbox mailbox;
  TcpContext context;
  Acceptor acceptor;
  Hub hub;
};

TEST(Bounds, AHubTakesSoManyMembersAndForgetsWhoIsGone) {
  SmallHub hub({3, 1 << 20});
  std::vector<std::unique_ptr<Insider>> members;
  for (int i = 0; i < 5; ++i) members.push_back(hub.Member(Name(i)));
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(members[i]->Heard(Kind::kWelcome), i < 3) << i;
  EXPECT_EQ(hub.hub.Peers(Now()).size(), 3u);
  // Names that come and go do not pile up either.
  for (int i = 5; i < 25; ++i) {
    members[0].reset();
    ASSERT_TRUE(hub.Until([&] { return hub.hub.claim().members == 2; }));
    members[0] = hub.Member(Name(i));
    ASSERT_TRUE(members[0]->Heard(Kind::kWelcome)) << i;
    ASSERT_EQ(hub.hub.Peers(Now()).size(), 3u);
  }
}

TEST(Bounds, WhatMembersSendToOneThatDoesNotReadIsCounted) {
  constexpr std::size_t kRelayed = 1 << 20, kMessages = 400, kBytes = 64 << 10;
  SmallHub hub({8, kRelayed});
  const std::unique_ptr<Insider> deaf = hub.Member(Name(1)), loud = hub.Member(Name(2));
  std::size_t most = 0;
  const std::string body(kBytes, 'x');
  for (std::size_t i = 0; i < kMessages; ++i) {
    loud->Say(Kind::kMessage, Envelope{Type::kFetch, 1, Name(1)}.Encode(), body);
    ASSERT_TRUE(hub.Until([&] {
      most = std::max(most, hub.hub.relayed());
      return loud->Write(), loud->idle();
    }));
  }
  ASSERT_TRUE(hub.Until([&] { return hub.context.counters.messages_refused > 0; }));
  EXPECT_LE(most, kRelayed);
  EXPECT_GT(most, kRelayed / 2);
  // Once it reads there is room again.
  EXPECT_TRUE(hub.Until([&] { return deaf->Read(), hub.hub.relayed() == 0; }));
}

TEST(Bounds, ATermThatCannotBeIsRefused) {
  const std::uint16_t port = FreePort();
  Cluster cluster;
  cluster.Add(SetupOf(Name(0), "tcp://127.0.0.1:" + std::to_string(port)));
  ASSERT_TRUE(cluster.Until([&] { return cluster[0].IsHub(); }));
  for (const std::uint64_t term : {UINT64_MAX, UINT64_MAX - 1, kMostTerm + 1}) {
    Insider insider(port);
    ASSERT_TRUE(cluster.Until([&] { return insider.Read(), insider.proven(); }));
    insider.Say(Kind::kJoin, JoinOf("insider", term).Encode());
    ASSERT_TRUE(cluster.Until([&] { return insider.Read(), insider.closed(); })) << term;
    EXPECT_FALSE(insider.Heard(Kind::kWelcome));
  }
  EXPECT_EQ(cluster[0].mailbox.status().term, 1u);
}

// The latest there can be: whoever says so cannot push the others out.
TEST(Bounds, TheLatestTermStaysWhereItIs) {
  EXPECT_EQ(TermAfter(1), 2u);
  EXPECT_EQ(TermAfter(kMostTerm), kMostTerm);
  EXPECT_EQ(TermAfter(UINT64_MAX), kMostTerm);
  const std::uint16_t port = FreePort();
  testing::Relay relay(port);
  Cluster cluster;
  cluster.Add(SetupOf(Name(0), "tcp://127.0.0.1:" + std::to_string(port)));
  ASSERT_TRUE(cluster.Until([&] { return cluster[0].IsHub(); }));
  Insider insider(port);
  ASSERT_TRUE(cluster.Until([&] { return insider.Read(), insider.proven(); }));
  insider.Say(Kind::kJoin, JoinOf("insider", kMostTerm).Encode());
  ASSERT_TRUE(cluster.Until([&] { return insider.Read(), insider.Heard(Kind::kWelcome); }));
  for (int i = 1; i < 3; ++i) cluster.Add(SetupOf(Name(i), "tcp://127.0.0.1:" + std::to_string(relay.port())));
  ASSERT_TRUE(cluster.Until([&] { return cluster[1].Connected() && cluster[2].Connected(); }));
  EXPECT_EQ(cluster[1].mailbox.status().term, kMostTerm);
  ASSERT_TRUE(cluster.Until([&] { return cluster[2].mailbox.Peers().size() >= 2; }));
  cluster.Kill(0);
  EXPECT_TRUE(cluster.Until([&] { return cluster[1].IsHub() && cluster[2].HubNode() == Name(1); }));
}

TEST(Bounds, NoPayloadCarriesATermThatCannotBe) {
  EXPECT_TRUE(Join::Decode(JoinOf("a", kMostTerm).Encode()));
  EXPECT_FALSE(Join::Decode(JoinOf("a", kMostTerm + 1).Encode()));
  EXPECT_FALSE(Welcome::Decode(Welcome{1, UINT64_MAX, 1, 1, 1, "a", ""}.Encode()));
  EXPECT_FALSE(Redirect::Decode(Redirect{UINT64_MAX, std::nullopt, "a"}.Encode()));
  EXPECT_FALSE(SuccessionList::Decode(SuccessionList{UINT64_MAX, 1, {}}.Encode()));
}

}  // namespace
}  // namespace ncclwatch::exchange
