#include "watchdog/settings/settings.h"

#include <gtest/gtest.h>

#include <map>

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
  read.settings = FromEnvironment(Get, &read.complaints);
  return read;
}

TEST(Settings, NothingSetGivesTheDefaultsOfTheContract) {
  const Read read = From({});
  EXPECT_TRUE(read.complaints.empty());
  EXPECT_TRUE(read.settings.on);
  EXPECT_EQ(read.settings.on_fault, OnFault::kDump);
  EXPECT_FALSE(read.settings.timeout_s);
  EXPECT_EQ(read.settings.ring, 16384u);
  EXPECT_TRUE(read.settings.gpu_marks);
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
  EXPECT_FALSE(read.settings.gpu_marks);
  EXPECT_EQ(read.settings.log, LogLevel::kDebug);
  EXPECT_EQ(read.settings.hook, "cat");
}

TEST(Settings, SecondsMayCarryTheirUnit) { EXPECT_EQ(From({{"NCCLWATCH_TIMEOUT", "30s"}}).settings.timeout_s, 30.0); }

class BadValue : public testing::TestWithParam<std::pair<const char*, const char*>> {};

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
  EXPECT_EQ(read.settings.gpu_marks, defaults.gpu_marks);
  EXPECT_EQ(read.settings.log, defaults.log);
}

INSTANTIATE_TEST_SUITE_P(Settings, BadValue,
                         testing::Values(std::pair{"NCCLWATCH", "maybe"}, std::pair{"NCCLWATCH_ON_FAULT", "explode"},
                                         std::pair{"NCCLWATCH_TIMEOUT", "soon"}, std::pair{"NCCLWATCH_TIMEOUT", "0"},
                                         std::pair{"NCCLWATCH_TIMEOUT", "-3"}, std::pair{"NCCLWATCH_TIMEOUT", "nan"},
                                         std::pair{"NCCLWATCH_TIMEOUT", "1e400"}, std::pair{"NCCLWATCH_TIMEOUT", "s"},
                                         std::pair{"NCCLWATCH_RING", "0"}, std::pair{"NCCLWATCH_RING", "-1"},
                                         std::pair{"NCCLWATCH_RING", "4194305"}, std::pair{"NCCLWATCH_RING", "16k"},
                                         std::pair{"NCCLWATCH_GPU", "both"}, std::pair{"NCCLWATCH_GPU", "some"},
                                         std::pair{"NCCLWATCH_LOG", "loud\nand clear"},
                                         std::pair{"NCCLWATCH_TRACE", "full"}, std::pair{"NCCLWATCH_NUMERICS", "nan"},
                                         std::pair{"NCCLWATCH_EXCHANGE", "redis://h:1"},
                                         std::pair{"NCCLWATCH_MPI_CHECKS", "sync"}));

}  // namespace
}  // namespace ncclwatch::settings
