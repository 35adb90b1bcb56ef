#include "watchdog/watch/node/boxless_search.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <thread>

namespace ncclwatch::watch {
namespace {

using std::chrono::steady_clock;

format::Identity Job(std::int32_t world_size) {
  format::Identity identity{};
  identity.world_size = world_size;
  return identity;
}

TEST(BoxlessSearch, TellsAtOnceWhatIsFoundAtOnce) {
  BoxlessSearch search([](const format::Identity&, const std::vector<std::int32_t>& seen) {
    EXPECT_EQ(seen, std::vector<std::int32_t>{0});
    return std::vector<evidence::BoxlessRank>{{11, 12, 1}};
  });
  const auto found = search.Look(Job(2), {0});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].pid, 11);
  EXPECT_EQ(found[0].rank, 1);
}

TEST(BoxlessSearch, AsksNobodyWhereNobodyIsMissing) {
  std::atomic<int> looks{0};
  BoxlessSearch search([&](const format::Identity&, const std::vector<std::int32_t>&) {
    ++looks;
    return std::vector<evidence::BoxlessRank>{};
  });
  EXPECT_TRUE(search.Look(Job(2), {1, 0}).empty());
  EXPECT_TRUE(search.Look(Job(0), {}).empty());
  EXPECT_EQ(looks, 0);
}

TEST(BoxlessSearch, OneThatIsStuckHoldsUpNobodyAndTellsLater) {
  auto stuck = std::make_shared<std::atomic<bool>>(true);
  auto looks = std::make_shared<std::atomic<int>>(0);
  BoxlessSearch search([stuck, looks](const format::Identity&, const std::vector<std::int32_t>&) {
    ++*looks;
    while (*stuck) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return std::vector<evidence::BoxlessRank>{{11, 12, 1}, {21, 22, 2}};
  });
  const auto began = steady_clock::now();
  EXPECT_TRUE(search.Look(Job(3), {0}).empty());
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(search.Look(Job(3), {0}).empty());
  EXPECT_LT(steady_clock::now() - began, std::chrono::seconds(2));
  EXPECT_EQ(*looks, 1);
  *stuck = false;
  std::vector<evidence::BoxlessRank> found;
  for (int i = 0; i < 2000 && found.empty(); ++i) {
    found = search.Look(Job(3), {0, 2});  // rank 2 has been born meanwhile
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].rank, 1);
  EXPECT_EQ(*looks, 1);
}

TEST(BoxlessSearch, OneThatFailsIsFollowedByAnother) {
  auto looks = std::make_shared<std::atomic<int>>(0);
  BoxlessSearch search([looks](const format::Identity&, const std::vector<std::int32_t>&) {
    if (++*looks == 1) throw std::runtime_error("no memory");
    return std::vector<evidence::BoxlessRank>{{11, 12, 1}};
  });
  EXPECT_TRUE(search.Look(Job(2), {0}).empty());
  EXPECT_EQ(search.Look(Job(2), {0}).size(), 1u);
}

}  // namespace
}  // namespace ncclwatch::watch
