// Leaders over a real redis-server with TLS.
#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>

#include <filesystem>

#include "tests/unit/exchange/cluster.h"
#include "tests/unit/exchange/redis_server.h"
#include "watchdog/exchange/net/endpoint.h"
#include "watchdog/exchange/redis/tls.h"
#include "watchdog/exchange/rendezvous/address.h"

namespace ncclwatch::exchange {
namespace {

using testing::Cluster;
using testing::Name;
using testing::RedisServer;
using testing::SetupOf;

bool Shell(const std::string& command) { return std::system(("(" + command + ") >/dev/null 2>&1").c_str()) == 0; }

// Two authorities; of the first one a server at 127.0.0.1, that is also "redis.example", and a client.
class RedisTls : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    char folder[] = "/tmp/redis_tls.XXXXXX";
    folder_ = mkdtemp(folder);
    made_ = Authority("ca") && Authority("other") &&
            Certificate("server", "subjectAltName=IP:127.0.0.1,DNS:redis.example") &&
            Certificate("client", "extendedKeyUsage=clientAuth");
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(folder_); }
  static std::string File(const std::string& name) { return folder_ + "/" + name; }
  static bool Authority(const std::string& name) {
    return Shell("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=" + name +
                 " -keyout " + File(name + ".key") + " -out " + File(name + ".pem"));
  }
  static bool Certificate(const std::string& name, const std::string& extension) {
    return Shell("openssl req -newkey rsa:2048 -nodes -subj /CN=" + name + " -keyout " + File(name + ".key") +
                 " -out " + File(name + ".csr") + " && echo '" + extension + "' > " + File(name + ".ext") +
                 " && openssl x509 -req -days 2 -in " + File(name + ".csr") + " -CA " + File("ca.pem") + " -CAkey " +
                 File("ca.key") + " -CAcreateserial -extfile " + File(name + ".ext") + " -out " + File(name + ".pem"));
  }
  void SetUp() override {
    if (!RedisServer::IsInstalled()) GTEST_SKIP() << "no redis-server here";
    if (!made_) GTEST_SKIP() << "no openssl here to make certificates with";
  }
  void Begin(bool clients_too = false) {
    server_ = std::make_unique<RedisServer>("pass word", folder_, clients_too);
    if (!server_->Ask({"PING"})) GTEST_SKIP() << "a redis-server without TLS";
  }
  std::string At(const std::string& query) const {
    return "rediss://:pass%20word@127.0.0.1:" + std::to_string(server_->tls_port()) + "?" + query;
  }
  // What stands in the way of a PING without a password; empty: nothing does.
  std::string Trouble(const std::string& address) const {
    const Address at = *ParseAddress(address, nullptr);
    std::string why;
    const std::unique_ptr<TlsTrust> trust = TlsTrust::Make(at.tls, at.host, &why);
    if (!trust) return why;
    Descriptors descriptors;
    const int fd = DialSocket(&descriptors, *Endpoint::Parse(at.host, at.port));
    TlsStream stream(*trust, fd);
    std::string heard;
    // A server without TLS waits for the rest of what it takes for a command.
    bool said = false;
    for (const std::int64_t until_ns = Now() + 3'000'000'000; heard.empty() && Now() < until_ns;) {
      pollfd ready{fd, static_cast<short>(said && !stream.wants_to_write() ? POLLIN : POLLIN | POLLOUT), 0};
      poll(&ready, 1, 100);
      if (!said) said = stream.Send("PING\r\n") > 0;
      char bytes[64];
      const ssize_t n = said ? stream.Receive(bytes, sizeof(bytes)) : -1;
      if (n > 0) heard.assign(bytes, static_cast<std::size_t>(n));
      if (n == 0 || !stream.why().empty()) break;
    }
    descriptors.Close(fd);
    return heard.starts_with("-NOAUTH") ? "" : "trouble: " + stream.why();
  }

  static inline std::string folder_;
  static inline bool made_ = false;
  std::unique_ptr<RedisServer> server_;
};

TEST_F(RedisTls, LeadersMeetAndSayLargeThings) {
  Begin();
  if (IsSkipped()) return;
  Cluster cluster;
  for (int i = 0; i < 3; ++i) {
    cluster.Add(SetupOf(Name(i), At("ca=" + File("ca.pem"))));
    ASSERT_TRUE(cluster.Until([&] { return cluster[static_cast<std::size_t>(i)].Connected(); })) << i;
  }
  ASSERT_TRUE(cluster.UntilAllHave(Name(0)));
  cluster[0].Take();
  const std::string large(kMaxBody, 'x');
  constexpr int kMany = 30;
  for (int i = 0; i < kMany; ++i) {
    ASSERT_TRUE(cluster.Until([&] { return cluster[1].mailbox.Send("", Type::kRecords, large); }));
    ASSERT_TRUE(cluster.Until([&] { return cluster[2].mailbox.Send("", Type::kRecords, "small"); }));
  }
  int came = 0, small = 0;
  ASSERT_TRUE(cluster.Until([&] {
    for (const Message& message : cluster[0].Take()) {
      came += message.body == large;
      small += message.body == "small";
    }
    return came + small == 2 * kMany;
  }));
  EXPECT_EQ(came, kMany);
}

TEST_F(RedisTls, TheServersCertificateMustBeOfAnAuthorityAndOfTheHost) {
  Begin();
  if (IsSkipped()) return;
  const auto tells = [this](const std::string& query, const std::string& what) {
    const std::string trouble = Trouble(At(query));
    EXPECT_NE(trouble.find(what), std::string::npos) << query << ": " << trouble;
  };
  EXPECT_EQ(Trouble(At("ca=" + File("ca.pem"))), "");
  EXPECT_EQ(Trouble(At("name=redis.example&ca=" + File("ca.pem"))), "");
  tells("ca=" + File("other.pem"), "not correctly signed by the trusted CA");
  tells("name=other.example&ca=" + File("ca.pem"), "Common Name (CN) does not match");
  tells("name=127.0.0.2&ca=" + File("ca.pem"), "is not of 127.0.0.2");
  tells("ca=" + File("missing.pem"), "missing.pem: cannot be read");
  tells("ca=" + File("ca.key"), "ca.key: no certificate");
  const std::string plain = std::to_string(server_->port());
  EXPECT_NE(Trouble("rediss://127.0.0.1:" + plain + "?ca=" + File("ca.pem")), "") << "a port without TLS";
}

TEST_F(RedisTls, AServerThatAsksForCertificatesGetsOne) {
  Begin(true);
  if (IsSkipped()) return;
  EXPECT_NE(Trouble(At("ca=" + File("ca.pem"))), "");
  EXPECT_EQ(Trouble(At("ca=" + File("ca.pem") + "&cert=" + File("client.pem") + "&key=" + File("client.key"))), "");
}

TEST_F(RedisTls, AServerThatIsKilledAndComesAgainIsFound) {
  Begin();
  if (IsSkipped()) return;
  Cluster cluster;
  for (int i = 0; i < 2; ++i) cluster.Add(SetupOf(Name(i), At("ca=" + File("ca.pem"))));
  ASSERT_TRUE(cluster.Until([&] { return cluster[0].Connected() && cluster[1].Connected(); }));
  server_->Kill();
  ASSERT_TRUE(cluster.Until([&] { return !cluster[0].Connected() && !cluster[1].Connected(); }));
  server_->Start();
  EXPECT_TRUE(cluster.Until([&] { return cluster[0].Connected() && cluster[1].Connected(); }));
}

}  // namespace
}  // namespace ncclwatch::exchange
