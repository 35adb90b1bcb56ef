// Slots of the ring: no two records get the same one, and none is left out.
#include "shim/black_box/slots.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <latch>
#include <thread>
#include <vector>

#include "shim/base/thread.h"

namespace ncclwatch::shim {
namespace {

constexpr std::uint64_t kEach = 20000;

TEST(SlotsTest, FollowOneAnother) {
  Slots slots;
  std::atomic<std::uint64_t> head{7};
  Thread thread{}, other{};
  EXPECT_EQ(slots.Take(head, thread), 7u);
  EXPECT_EQ(slots.Take(head, thread), 8u);
  EXPECT_EQ(slots.Take(head, other), 9u);
  EXPECT_EQ(slots.Take(head, thread), 10u);
  EXPECT_EQ(slots.Take(head, other), 11u);
  EXPECT_EQ(head.load(), 12u);
}

// The first thread is in the midst of taking them when the others come.
TEST(SlotsTest, AreTakenOnceHoweverManyThreadsThereAre) {
  for (int round = 0; round < 50; ++round) {
    constexpr std::size_t kThreads = 3;
    Slots slots;
    std::atomic<std::uint64_t> head{0};
    std::atomic<bool> others{false};
    std::latch running(1);
    std::vector<std::uint64_t> taken[kThreads];
    Thread notes[kThreads] = {};
    std::vector<std::thread> threads;
    threads.emplace_back([&] {
      while (!others.load(std::memory_order_relaxed) || taken[0].size() < kEach) {
        taken[0].push_back(slots.Take(head, notes[0]));
        if (taken[0].size() == 100) running.count_down();
      }
    });
    running.wait();
    for (std::size_t i = 1; i < kThreads; ++i)
      threads.emplace_back([&, i] {
        while (taken[i].size() < kEach) taken[i].push_back(slots.Take(head, notes[i]));
        others.store(true, std::memory_order_relaxed);
      });
    for (std::thread& thread : threads) thread.join();
    std::vector<std::uint64_t> all;
    for (const std::vector<std::uint64_t>& some : taken) {
      EXPECT_TRUE(std::is_sorted(some.begin(), some.end()));
      all.insert(all.end(), some.begin(), some.end());
    }
    std::sort(all.begin(), all.end());
    ASSERT_EQ(all.size(), head.load());
    for (std::uint64_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], i);
  }
}

}  // namespace
}  // namespace ncclwatch::shim
