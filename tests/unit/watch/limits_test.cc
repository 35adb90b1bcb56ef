#include "watchdog/watch/base/limits.h"
#include "ncclwatch/nanoseconds.h"

#include <gtest/gtest.h>

namespace ncclwatch::watch {
namespace {

TEST(Limits, AUsersTimeoutIsBoth) {
  const diagnosis::Limits limits = LimitsFor(2.5, 100 * kSecond);
  EXPECT_EQ(limits.suspect_after_ns, 2'500'000'000);
  EXPECT_EQ(limits.likely_after_ns, 2'500'000'000);
}

TEST(Limits, AutoFollowsTheLongestWaitWithinItsBounds) {
  const auto seconds = [](double longest) {
    const diagnosis::Limits limits = LimitsFor(std::nullopt, static_cast<std::int64_t>(longest * 1e9));
    return std::pair(limits.suspect_after_ns / kSecond, limits.likely_after_ns / kSecond);
  };
  EXPECT_EQ(seconds(0), std::pair(10L, 60L));
  EXPECT_EQ(seconds(2), std::pair(10L, 60L));
  EXPECT_EQ(seconds(5), std::pair(20L, 60L));
  EXPECT_EQ(seconds(30), std::pair(120L, 240L));
  EXPECT_EQ(seconds(100), std::pair(240L, 240L));
  EXPECT_EQ(seconds(9e9), std::pair(240L, 240L));
  EXPECT_EQ(seconds(-1), std::pair(10L, 60L));
}

}  // namespace
}  // namespace ncclwatch::watch
