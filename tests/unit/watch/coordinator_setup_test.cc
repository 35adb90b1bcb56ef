// Which tokens a leader has, from the real setup; and that strangers who know all but the secret get nowhere.
#include "watchdog/watch/cluster/coordinator_setup.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include "tests/unit/exchange/cluster.h"
#include "tests/unit/exchange/redis_server.h"
#include "tests/unit/exchange/relay.h"
#include "watchdog/exchange/rendezvous/token.h"
#include "watchdog/exchange/rendezvous/token_file.h"

namespace ncclwatch::watch {
namespace {

namespace fs = std::filesystem;
using exchange::Token;
using testing::Cluster;

class CoordinatorSetup : public ::testing::Test {
 protected:
  CoordinatorSetup() {
    char name[] = "/tmp/ncclwatch-setup-XXXXXX";
    top_ = mkdtemp(name);
    header_->identity.world_size = 4;
    header_->identity.local_world_size = 2;
    context_.own = header_.get();
    context_.directory = descriptors::Directory::Own(top_);
    environment_ = {"RANK=0",
                    "WORLD_SIZE=4",
                    "LOCAL_RANK=0",
                    "LOCAL_WORLD_SIZE=2",
                    "MASTER_PORT=29500",
                    "MASTER_ADDR=127.0.0.1",
                    "HOME=" + top_ + "/home"};
    fs::create_directory(top_ + "/home");
  }
  ~CoordinatorSetup() override { fs::remove_all(top_); }

  std::string Write(const std::string& text, mode_t mode) const {
    const std::string path = top_ + "/secret";
    fs::remove(path);
    std::ofstream(path) << text;
    chmod(path.c_str(), mode);
    return path;
  }
  // As ClusterCoordinator does it.
  std::optional<exchange::Setup> Real() {
    const std::optional<Plan> plan = SetupFor(context_, 1, environment_);
    if (!plan) return std::nullopt;
    found_ = FindTokens(plan->request);
    if (!found_.refused.empty()) return std::nullopt;
    exchange::Setup setup = plan->setup;
    PutTokens(*plan, found_, environment_, &setup);
    return setup;
  }
  std::string Job() { return SetupFor(context_, 1, environment_)->setup.job; }

  std::string top_;
  std::unique_ptr<format::Header> header_ = std::make_unique<format::Header>();
  Context context_{.own = nullptr, .own_path = {}, .directory = {}, .settings = {}, .command = {}};
  std::vector<std::string> environment_;
  FoundTokens found_;
};

TEST_F(CoordinatorSetup, WithASecretThereIsNoOtherToken) {
  context_.settings.token = "the secret";
  context_.settings.out = top_ + "/out";
  for (const char* address : {"auto", "tcp://127.0.0.1:7777", "redis://127.0.0.1"}) {
    context_.settings.exchange = address;
    const std::optional<exchange::Setup> setup = Real();
    ASSERT_TRUE(setup);
    ASSERT_EQ(setup->tokens.size(), 1u) << address;
    EXPECT_EQ(setup->tokens[0].bytes, exchange::TokenOfSecret("the secret").bytes);
    EXPECT_FALSE(setup->tokens[0].guessable);
  }
}

TEST_F(CoordinatorSetup, ASecretInAFileCountsAndOneThatOthersMayReadEndsTheExchange) {
  context_.settings.token = "in the environment";
  context_.settings.token_file = Write("in the file\n", 0600);
  const std::optional<exchange::Setup> setup = Real();
  ASSERT_TRUE(setup);
  ASSERT_EQ(setup->tokens.size(), 1u);
  EXPECT_EQ(setup->tokens[0].bytes, exchange::TokenOfSecret("in the file").bytes);

  for (const mode_t mode : {0640, 0604, 0620, 0666}) {
    Write("in the file\n", mode);
    EXPECT_FALSE(Real()) << std::oct << mode;
    EXPECT_NE(found_.refused.find("chmod 600"), std::string::npos) << found_.refused;
  }
  const auto refused = [&](const std::string& path, const char* why) {
    context_.settings.token_file = path;
    EXPECT_FALSE(Real()) << path;
    EXPECT_NE(found_.refused.find(why), std::string::npos) << found_.refused;
    EXPECT_TRUE(found_.tokens.empty()) << "nor a weaker token";
  };
  refused(Write(" \n", 0600), "empty");
  refused(top_ + "/missing", "No such file");
  refused(top_ + "/home", "no regular file");
  Write("in the file\n", 0600);
  fs::create_symlink(top_ + "/secret", top_ + "/link");
  refused(top_ + "/link", "a link");
  if (geteuid() != 0) return;
  const std::string path = Write("in the file\n", 0600);
  ASSERT_EQ(chown(path.c_str(), 4711, 4711), 0);
  refused(path, "another user");
}

TEST_F(CoordinatorSetup, OtherNodesAreLookedForWhereTheLauncherDoesNotTellHowManyRanksAreHere) {
  header_->identity.local_world_size = 0;
  EXPECT_FALSE(SetupFor(context_, 1, environment_)) << "the master is this machine";
  environment_ = {"RANK=0", "WORLD_SIZE=4", "MASTER_PORT=29500", "MASTER_ADDR=job-master-0"};
  const std::optional<Plan> plan = SetupFor(context_, 1, environment_);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->setup.address.host, "job-master-0");
  header_->identity.world_size = 1;
  EXPECT_FALSE(SetupFor(context_, 1, environment_));
}

TEST_F(CoordinatorSetup, OneUsersNodesFindTheSameSecretWhoeverIsFirst) {
  std::vector<exchange::Secret> found(8);
  std::vector<std::thread> nodes;
  for (exchange::Secret& one : found)
    nodes.emplace_back([&] { one = exchange::SharedSecret(top_ + "/home/.ncclwatch", "job"); });
  for (std::thread& node : nodes) node.join();
  for (const exchange::Secret& one : found) EXPECT_EQ(one.text, found[0].text) << one.why;
  EXPECT_EQ(found[0].text.size(), 64u);
  struct stat info {};
  ASSERT_EQ(stat((top_ + "/home/.ncclwatch/token-job").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  ASSERT_EQ(stat((top_ + "/home/.ncclwatch").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  EXPECT_NE(exchange::SharedSecret(top_ + "/home/.ncclwatch", "other").text, found[0].text);
  EXPECT_EQ(std::distance(fs::directory_iterator(top_ + "/home/.ncclwatch"), {}), 2) << "no draft is left";
}

TEST_F(CoordinatorSetup, WithoutASecretTheJobMakesOneWhereItsUserHasAPlace) {
  const std::optional<exchange::Setup> setup = Real();
  ASSERT_TRUE(setup);
  ASSERT_EQ(setup->tokens.size(), 2u);
  EXPECT_FALSE(setup->tokens[0].guessable);
  EXPECT_TRUE(setup->tokens[1].guessable);
  EXPECT_EQ(setup->tokens[1].bytes, exchange::TokenOfJob(Job()).bytes);
  EXPECT_FALSE(found_.everywhere) << "/tmp is this machine's alone";
  EXPECT_EQ(Real()->tokens[0].bytes, setup->tokens[0].bytes) << "the next leader finds it";

  context_.settings.exchange = "redis://127.0.0.1";  // others could not read what is sealed with this node's own
  EXPECT_EQ(Real()->tokens.size(), 1u);
  EXPECT_TRUE(Real()->tokens[0].guessable);
  context_.settings.out = top_ + "/out";  // which all nodes have
  ASSERT_EQ(Real()->tokens.size(), 1u);
  EXPECT_FALSE(Real()->tokens[0].guessable);
  EXPECT_TRUE(fs::exists(top_ + "/out/.ncclwatch/token-" + exchange::FileNameOf(Job())));
}

TEST_F(CoordinatorSetup, APlaceThatOthersCanWriteToKeepsNoSecret) {
  fs::create_directory(top_ + "/home/.ncclwatch");
  chmod((top_ + "/home/.ncclwatch").c_str(), 0777);
  const std::optional<exchange::Setup> setup = Real();
  ASSERT_EQ(setup->tokens.size(), 1u);
  EXPECT_TRUE(setup->tokens[0].guessable);
}

TEST_F(CoordinatorSetup, AHomeThatIsNotThereIsNotMade) {
  fs::remove_all(top_ + "/home");
  EXPECT_EQ(Real()->tokens.size(), 1u);
  EXPECT_FALSE(fs::exists(top_ + "/home"));
}

TEST_F(CoordinatorSetup, ASecretOfALongEndedJobIsRemovedAndOneInUseIsKept) {
  const std::string place = top_ + "/home/.ncclwatch";
  for (const char* name : {"old", "used"}) {
    ASSERT_EQ(exchange::SharedSecret(place, name).text.size(), 64u);
    const timespec long_ago[2] = {{1'700'000'000, 0}, {1'700'000'000, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, (place + "/token-" + name).c_str(), long_ago, 0), 0);
  }
  exchange::KeepSecret(place, "used");
  exchange::SharedSecret(place, "new");
  EXPECT_FALSE(fs::exists(place + "/token-old"));
  EXPECT_TRUE(fs::exists(place + "/token-used"));
}

TEST_F(CoordinatorSetup, AnAddressWithoutAnIdentityNeedsASecret) {
  environment_ = {"HOME=" + top_ + "/home"};
  header_->identity = {};
  for (const char* address : {"tcp://127.0.0.1:7777", "redis://127.0.0.1"}) {
    context_.settings = {};
    context_.settings.exchange = address;
    EXPECT_FALSE(Real()) << address;
    context_.settings.job = "a name that others may choose too";
    EXPECT_FALSE(Real()) << address;
    context_.settings.token = "one";
    const std::optional<exchange::Setup> one = Real();
    context_.settings.token = "another";
    const std::optional<exchange::Setup> another = Real();
    ASSERT_TRUE(one && another);
    EXPECT_NE(one->job, another->job) << "or they would share keys in Redis";
    context_.settings.job = "its other job";
    EXPECT_NE(Real()->tokens[0].bytes, another->tokens[0].bytes) << "two jobs of one secret";
  }
}

// ---- strangers
// -------------------------------------------------------------------------------------------------------

class CoordinatorStrangers : public CoordinatorSetup {
 protected:
  // A node of the job that has the secret, or somebody who knows everything else.
  exchange::Setup Of(const std::string& node, const std::string& address, bool stranger = false) {
    context_.settings.exchange = address;
    context_.settings.token = "the secret";
    exchange::Setup setup = *Real();
    setup.self.node = node;
    setup.timing = testing::Quick();
    if (stranger)
      setup.tokens = {exchange::TokenOfJob(setup.job), exchange::TokenOfSecret(""), exchange::TokenOfSecret("guess")};
    return setup;
  }
  Cluster cluster_;
};

TEST_F(CoordinatorStrangers, WhoDialsWithoutTheSecretIsNoMember) {
  const std::string address = "tcp://127.0.0.1:" + std::to_string(testing::FreePort());
  cluster_.Add(Of("hub", address));
  ASSERT_TRUE(cluster_.UntilAllHave("hub"));
  cluster_.Add(Of("stranger", address, true));
  cluster_[1].mailbox.Send("", exchange::Type::kSummary, "from nobody");
  ASSERT_TRUE(cluster_.Until([&] { return cluster_[0].mailbox.counters().strangers_refused > 3; }));
  EXPECT_TRUE(cluster_[0].Take().empty());
  EXPECT_EQ(cluster_[0].ConnectedPeers(), 0);
  EXPECT_NE(cluster_[1].HubNode(), "hub");
}

TEST_F(CoordinatorStrangers, WhoListensAtTheMeetingPlaceWithoutTheSecretIsNoHub) {
  const std::uint16_t port = testing::FreePort();
  cluster_.Add(Of("stranger", "tcp://127.0.0.1:" + std::to_string(port), true));
  ASSERT_TRUE(cluster_.Until([&] { return cluster_[0].IsHub(); }));
  testing::Relay relay(port);
  cluster_.Add(Of("member", "tcp://127.0.0.1:" + std::to_string(relay.port())));
  ASSERT_TRUE(cluster_.Until([&] { return cluster_[0].mailbox.counters().strangers_refused > 3; }));
  EXPECT_NE(cluster_[1].HubNode(), "stranger");
  EXPECT_TRUE(cluster_[0].Take().empty());
}

TEST_F(CoordinatorStrangers, WhoWritesToRedisWithoutTheSecretIsNotRead) {
  if (!testing::RedisServer::IsInstalled()) GTEST_SKIP() << "no redis-server";
  testing::RedisServer server;
  const std::string address = "redis://127.0.0.1:" + std::to_string(server.port());
  cluster_.Add(Of("hub", address));
  ASSERT_TRUE(cluster_.UntilAllHave("hub"));
  cluster_.Add(Of("stranger", address, true));
  ASSERT_TRUE(cluster_.Until([&] { return cluster_[0].mailbox.counters().messages_refused > 3; }));
  EXPECT_TRUE(cluster_[0].Take().empty());
  EXPECT_EQ(cluster_[0].ConnectedPeers(), 0);
  EXPECT_TRUE(cluster_[0].IsHub());
  EXPECT_FALSE(cluster_[1].Connected());
}

}  // namespace
}  // namespace ncclwatch::watch
