#include "watchdog/settings/settings.h"

#include <gtest/gtest.h>

#include <map>

#include "watchdog/settings/bind_address.h"
#include "watchdog/settings/exchange_address.h"

namespace ncclwatch::settings {
namespace {

std::map<std::string, std::string> environment;
const char* Get(const char* name) {
  const auto found = environment.find(name);
  return found == environment.end() ? nullptr : found->second.c_str();
}

struct Read {
  Settings settings;
  std::vector<std::string> complaints;
};
Read From(std::map<std::string, std::string> variables) {
  environment = std::move(variables);
  Read read;
  std::vector<Complaint> complaints;
  read.settings = FromEnvironment(Get, &complaints);
  for (const Complaint& complaint : complaints) read.complaints.push_back(complaint.text);
  return read;
}

TEST(Settings, NothingSetGivesTheDefaultsOfTheContract) {
  const Read read = From({});
  EXPECT_TRUE(read.complaints.empty());
  EXPECT_TRUE(read.settings.on);
  EXPECT_EQ(read.settings.on_fault, OnFault::kDump);
  EXPECT_FALSE(read.settings.timeout_s);
  EXPECT_EQ(read.settings.ring, 16384u);
  EXPECT_EQ(read.settings.gpu, GpuMarks::kEnd);
  EXPECT_EQ(read.settings.log, LogLevel::kWarn);
  EXPECT_TRUE(read.settings.directory.empty() && read.settings.out.empty() && read.settings.job.empty());
}

TEST(Settings, EveryValueOfTheContractIsUnderstood) {
  const Read read = From({{"NCCLWATCH", "off"},
                          {"NCCLWATCH_DIR", "/d"},
                          {"NCCLWATCH_OUT", "/o"},
                          {"NCCLWATCH_JOB", "j"},
                          {"NCCLWATCH_ON_FAULT", "Abort"},
                          {"NCCLWATCH_TIMEOUT", "2.5"},
                          {"NCCLWATCH_RING", "1000"},
                          {"NCCLWATCH_COMMUNICATORS", "10000"},
                          {"NCCLWATCH_GPU", "off"},
                          {"NCCLWATCH_NCCL", "/lib"},
                          {"NCCLWATCH_HOOK", "cat"},
                          {"NCCLWATCH_LOG", "debug"},
                          {"NCCLWATCH_TRACE", "ring"},
                          {"NCCLWATCH_NUMERICS", "off"},
                          {"NCCLWATCH_EXCHANGE", "off"}});
  EXPECT_TRUE(read.complaints.empty()) << read.complaints.front();
  EXPECT_FALSE(read.settings.on);
  EXPECT_EQ(read.settings.on_fault, OnFault::kAbort);
  EXPECT_EQ(read.settings.timeout_s, 2.5);
  EXPECT_EQ(read.settings.ring, 1024u);
  EXPECT_EQ(read.settings.communicators, 10000u);
  EXPECT_EQ(read.settings.gpu, GpuMarks::kOff);
  EXPECT_EQ(From({{"NCCLWATCH_GPU", "Both"}}).settings.gpu, GpuMarks::kBoth);
  EXPECT_EQ(read.settings.log, LogLevel::kDebug);
  EXPECT_EQ(read.settings.hook, "cat");
}

TEST(Settings, PlacesOfTheExchangeAreKeptAsTheyAre) {
  for (const char* text : {"tcp://node-1:29501", "tcp://[fe80::1]:1", "redis://h", "redis://:se%40cret@h:7/3",
                           "redis://user:secret@10.0.0.1"}) {
    const Read read = From({{"NCCLWATCH_EXCHANGE", text}, {"NCCLWATCH_TOKEN", "t"}});
    EXPECT_TRUE(read.complaints.empty()) << text;
    EXPECT_EQ(read.settings.exchange, text);
    EXPECT_EQ(read.settings.token, "t");
  }
  EXPECT_EQ(From({{"NCCLWATCH_EXCHANGE", "OFF"}}).settings.exchange, "off");
  EXPECT_EQ(From({}).settings.exchange, "auto");
  EXPECT_TRUE(From({}).settings.token.empty());
}

TEST(Settings, PartsOfAPlaceAreTakenApart) {
  const auto redis = ParseExchange("redis://me:a%3Ab@[::1]:7000/12");
  ASSERT_TRUE(redis);
  EXPECT_TRUE(redis->redis);
  EXPECT_EQ(redis->user, "me");
  EXPECT_EQ(redis->password, "a:b");
  EXPECT_EQ(redis->host, "::1");
  EXPECT_EQ(redis->port, 7000);
  EXPECT_EQ(redis->database, 12);
  EXPECT_EQ(ParseExchange("redis://h")->port, kRedisPort);
  for (const char* text : {"",
                           "tcp://",
                           "tcp://h",
                           "tcp://h:",
                           "tcp://h:0",
                           "tcp://h:65536",
                           "tcp://h:1/2",
                           "tcp://[h]:1",
                           "tcp://[::1:1",
                           "tcp://u:p@h:1",
                           "tcp://a b:1",
                           "redis://h:x",
                           "redis://h/x",
                           "redis://p@h",
                           "redis://:%4@h",
                           "redis://h/-1",
                           "redis://h?ca=/f",
                           "rediss://h?",
                           "rediss://h?ca",
                           "rediss://h?ca=",
                           "rediss://h?what=x",
                           "rediss://h?key=/f",
                           "rediss://h?ca=%4"})
    EXPECT_FALSE(ParseExchange(text)) << text;
}

TEST(Settings, RedisOverTls) {
  const auto plain = ParseExchange("redis://h");
  EXPECT_FALSE(plain->tls.on);
  const auto tls = ParseExchange("rediss://me:a@[::1]:7000/12?ca=/c%20a.pem&cert=/x&key=/y&name=redis.example");
  ASSERT_TRUE(tls);
  EXPECT_TRUE(tls->redis);
  EXPECT_TRUE(tls->tls.on);
  EXPECT_EQ(tls->host, "::1");
  EXPECT_EQ(tls->port, 7000);
  EXPECT_EQ(tls->database, 12);
  EXPECT_EQ(tls->tls.ca, "/c a.pem");
  EXPECT_EQ(tls->tls.cert, "/x");
  EXPECT_EQ(tls->tls.key, "/y");
  EXPECT_EQ(tls->tls.name, "redis.example");
  EXPECT_TRUE(ParseExchange("rediss://h")->tls.on);
  EXPECT_EQ(From({{"NCCLWATCH_EXCHANGE", "rediss://h?ca=/c"}}).settings.exchange, "rediss://h?ca=/c");
}

TEST(Settings, AComplaintNeverShowsAPassword) {
  const Read read = From({{"NCCLWATCH_EXCHANGE", "redis://:hunter2@h:x"}});
  ASSERT_EQ(read.complaints.size(), 1u);
  EXPECT_EQ(read.complaints[0].find("hunter2"), std::string::npos) << read.complaints[0];
}

TEST(Settings, SecondsMayCarryTheirUnit) { EXPECT_EQ(From({{"NCCLWATCH_TIMEOUT", "30s"}}).settings.timeout_s, 30.0); }

class BadValue : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(BadValue, IsNamedOnceAndTheDefaultIsUsed) {
  const auto [variable, value] = GetParam();
  const Read read = From({{variable, value}});
  ASSERT_EQ(read.complaints.size(), 1u);
  EXPECT_NE(read.complaints[0].find(variable), std::string::npos);
  EXPECT_EQ(read.complaints[0].find('\n'), std::string::npos);
  EXPECT_NE(read.complaints[0].find("ed"), std::string::npos);
  const Settings defaults;
  EXPECT_EQ(read.settings.on, defaults.on);
  EXPECT_EQ(read.settings.on_fault, defaults.on_fault);
  EXPECT_EQ(read.settings.timeout_s, defaults.timeout_s);
  EXPECT_EQ(read.settings.ring, defaults.ring);
  EXPECT_EQ(read.settings.gpu, defaults.gpu);
  EXPECT_EQ(read.settings.log, defaults.log);
}

INSTANTIATE_TEST_SUITE_P(
    Settings, BadValue,
    ::testing::Values(std::pair{"NCCLWATCH", "maybe"}, std::pair{"NCCLWATCH_ON_FAULT", "explode"},
                      std::pair{"NCCLWATCH_TIMEOUT", "soon"}, std::pair{"NCCLWATCH_TIMEOUT", "0"},
                      std::pair{"NCCLWATCH_TIMEOUT", "-3"}, std::pair{"NCCLWATCH_TIMEOUT", "nan"},
                      std::pair{"NCCLWATCH_TIMEOUT", "1e400"}, std::pair{"NCCLWATCH_TIMEOUT", "s"},
                      std::pair{"NCCLWATCH_RING", "0"}, std::pair{"NCCLWATCH_RING", "-1"},
                      std::pair{"NCCLWATCH_RING", "4194305"}, std::pair{"NCCLWATCH_RING", "16k"},
                      std::pair{"NCCLWATCH_CRASH_STACK", "9M"}, std::pair{"NCCLWATCH_CRASH_STACK", "much"},
                      std::pair{"NCCLWATCH_COMMUNICATORS", "0"}, std::pair{"NCCLWATCH_COMMUNICATORS", "65537"},
                      std::pair{"NCCLWATCH_GPU", "some"}, std::pair{"NCCLWATCH_LOG", "loud\nand clear"},
                      std::pair{"NCCLWATCH_TRACE", "whole"}, std::pair{"NCCLWATCH_TRACE_MAX", "much"},
                      std::pair{"NCCLWATCH_NUMERICS", "nan"}, std::pair{"NCCLWATCH_EXCHANGE", "http://h:1"},
                      std::pair{"NCCLWATCH_KEEP", "for ever"}, std::pair{"NCCLWATCH_HOOK_TIMEOUT", "0"},
                      std::pair{"NCCLWATCH_PTRACE", "maybe"}, std::pair{"NCCLWATCH_MPI_CHECKS", "sync,all"}));

TEST(Settings, WhereLeadersListenIsAnAddressAndPorts) {
  for (const char* text : {"10.1.2.3", "10.1.2.3:7000", "10.1.2.3:7000-7100", ":7000", ":7000-7100", "0.0.0.0", "[::]",
                           "[fd00::1]", "[fd00::1]:7000-7001", "10.1.0.0/16", "10.1.0.0/16:1-65535", "[fd00::/64]:7"}) {
    const Read read = From({{"NCCLWATCH_BIND", text}});
    EXPECT_EQ(read.settings.bind, text);
    EXPECT_TRUE(read.complaints.empty()) << text;
  }
  EXPECT_EQ(ParseBind("[fd00::/64]:7000-7100"), (BindAddress{"fd00::", 64, 7000, 7100}));
  EXPECT_EQ(ParseBind(":7000"), (BindAddress{"", -1, 7000, 7000}));
  EXPECT_EQ(ParseBind(""), BindAddress());
  for (const char* text : {"ib0", "localhost:7000", "10.1.2.3:", "10.1.2", "10.1.2.3:0", "10.1.2.3:7100-7000",
                           "10.1.2.3:7000-", "10.1.2.3:70000", "10.0.0.0/33", "fd00::1", "[fd00::1", "[10.1.2.3]:1",
                           "[fd00::/129]", "10.1.2.3/", ":7000x", "7000"}) {
    const Read read = From({{"NCCLWATCH_BIND", text}});
    EXPECT_TRUE(read.settings.bind.empty()) << text;
    ASSERT_EQ(read.complaints.size(), 1u) << text;
    EXPECT_NE(read.complaints[0].find("[address][:port[-port]]"), std::string::npos);
  }
}

TEST(Settings, APortOutsideTheRangeIsMappedIntoIt) {
  const BindAddress range = *ParseBind(":7000-7099");
  EXPECT_EQ(InRange(range, 7042), 7042);
  EXPECT_EQ(InRange(range, 0), 0) << "none stays none";
  for (const std::uint16_t port : {1, 6999, 7100, 23456, 65535}) {
    EXPECT_GE(InRange(range, port), 7000);
    EXPECT_LE(InRange(range, port), 7099);
  }
  EXPECT_EQ(InRange(*ParseBind(":1-65535"), 65535), 65535);
  EXPECT_EQ(InRange({}, 23456), 23456);
}

TEST(Settings, OfTheStackOfACrashASizeIsKept) {
  const auto size = [](const char* text) { return From({{"NCCLWATCH_CRASH_STACK", text}}).settings.crash_stack; };
  EXPECT_EQ(size(""), 65536u);
  EXPECT_EQ(size("0"), 0u);
  EXPECT_EQ(size("8K"), 8192u);
  EXPECT_EQ(size("8M"), 8u << 20);
}

TEST(Settings, WhatIsKeptIsAnAgeAndASize) {
  const auto keep = [](const char* text) { return From({{"NCCLWATCH_KEEP", text}}).settings.keep; };
  EXPECT_EQ(keep("").age_s, 7 * 86400.0);
  EXPECT_EQ(keep("").bytes, std::uint64_t{2} << 30);
  EXPECT_EQ(keep("12h,500M").age_s, 12 * 3600.0);
  EXPECT_EQ(keep("12h,500M").bytes, std::uint64_t{500} << 20);
  EXPECT_EQ(keep("90").age_s, 90.0);
  EXPECT_TRUE(keep("all").all);
  EXPECT_FALSE(keep("7d,2G").all);
}

TEST(Settings, MpiChecksAreAList) {
  EXPECT_FALSE(From({}).settings.mpi_checks.sync);
  EXPECT_TRUE(From({{"NCCLWATCH_MPI_CHECKS", "sync"}}).settings.mpi_checks.sync);
  EXPECT_FALSE(From({{"NCCLWATCH_MPI_CHECKS", "sync"}}).settings.mpi_checks.buffers);
  const MpiChecks both = From({{"NCCLWATCH_MPI_CHECKS", "default,buffers,sync"}}).settings.mpi_checks;
  EXPECT_TRUE(both.sync && both.buffers);
}

TEST(Settings, KernelsAreTimedByOneInSoMany) {
  const auto read = [](const char* value) { return From({{"NCCLWATCH_PROFILER", value}}); };
  EXPECT_EQ(From({}).settings.profiler.every, 16u);
  EXPECT_FALSE(From({}).settings.profiler.beside_others);
  EXPECT_EQ(read("off").settings.profiler.every, 0u);
  EXPECT_EQ(read("1/1").settings.profiler.every, 1u);
  EXPECT_TRUE(read("1/200").settings.profiler.beside_others);
  for (const char* wrong : {"1/0", "1/", "2/3", "1/16x", "on", "1/-4", "1/99999999999"}) {
    EXPECT_EQ(read(wrong).complaints.size(), 1u) << wrong;
    EXPECT_EQ(read(wrong).settings.profiler.every, 16u) << wrong;
  }
}

TEST(Settings, MetricsHaveAPortOrAFile) {
  const auto read = [](const char* value) { return From({{"NCCLWATCH_METRICS", value}}); };
  for (const char* right : {":9400", "0.0.0.0:9400", "[::1]:9400", "/var/lib/node_exporter/job.prom"}) {
    EXPECT_TRUE(read(right).complaints.empty()) << right;
    EXPECT_EQ(read(right).settings.metrics, right);
  }
  for (const char* wrong : {"9400", ":0", ":9400-9500", "10.0.0.0/8:9400", "job.prom"}) {
    EXPECT_EQ(read(wrong).complaints.size(), 1u) << wrong;
    EXPECT_EQ(read(wrong).settings.metrics, "") << wrong;
  }
}

}  // namespace
}  // namespace ncclwatch::settings
