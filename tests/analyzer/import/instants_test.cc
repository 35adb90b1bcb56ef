// When operations were made, as the moments tell at which their lines were written.
#include "analyzer/import/inspector/instants.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace ncclwatch::analyzer::import::inspector {
namespace {

constexpr std::int64_t kBegin_ns = 1'780'000'000'000'000'000, kMs_ns = 1'000'000, kLine_ns = 6'000;

// An operation ends every `every_ns`; the process flushes every `interval_ns`, first at `phase_ns`.
std::vector<Operation> Written(std::size_t count, std::int64_t every_ns, std::int64_t interval_ns,
                               std::int64_t phase_ns) {
  std::vector<Operation> operations(count);
  std::int64_t flush = -1, line = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t ended = static_cast<std::int64_t>(i + 1) * every_ns;
    const std::int64_t now = (ended - phase_ns + interval_ns) / interval_ns;
    line = now == flush ? line + 1 : 0;
    flush = now;
    operations[i].number = i;
    operations[i].kernel_ns = every_ns / 4;
    operations[i].written_ns = kBegin_ns + phase_ns + flush * interval_ns + line * kLine_ns;
  }
  return operations;
}

TEST(Instants, AFlushOfManyLinesIsOne) {
  // 1,000 lines take 6 ms to write.
  const std::vector<Operation> operations = Written(20'000, 10 * kMs_ns, 10'000 * kMs_ns, 0);
  ASSERT_EQ(TimingOf(operations), Timing::kWritten);
  const std::vector<std::int64_t> at_ns = InstantsOf(operations, Timing::kWritten);
  for (std::size_t i = 1; i < at_ns.size(); ++i) {
    EXPECT_GT(at_ns[i] - at_ns[i - 1], 9 * kMs_ns);
    EXPECT_LT(at_ns[i] - at_ns[i - 1], 11 * kMs_ns);
  }
}

TEST(Instants, ShortIntervalsAreSeveralFlushes) {
  const std::vector<Operation> operations = Written(1'000, kMs_ns, kMs_ns / 2, 0);
  EXPECT_EQ(TimingOf(operations), Timing::kWritten);
}

TEST(Instants, ProcessesAgreeThatFlushAtOtherMoments) {
  // Steps of 170 ms, one operation in each.
  constexpr std::int64_t kEvery_ns = 170 * kMs_ns, kInterval_ns = 1'000 * kMs_ns;
  const auto places_of = [&](std::int64_t phase_ns) {
    const std::vector<Operation> operations = Written(600, kEvery_ns, kInterval_ns, phase_ns);
    std::vector<double> places;
    for (const std::int64_t at_ns : InstantsOf(operations, Timing::kWritten))
      places.push_back(static_cast<double>(at_ns - kBegin_ns) / static_cast<double>(kEvery_ns));
    return Evened(places, operations, Timing::kWritten);
  };
  const std::vector<double> one = places_of(0), other = places_of(430 * kMs_ns);
  for (std::size_t i = 60; i + 60 < one.size(); ++i) EXPECT_NEAR(one[i], other[i], 0.5) << i;
  EXPECT_TRUE(std::is_sorted(one.begin(), one.end()));
}

TEST(Instants, TheLastFlushComesAfterTheEndOfTheJob) {
  // 1,000 operations in each flush, and 200 in the last one.
  const std::vector<std::int64_t> at_ns =
      InstantsOf(Written(20'200, 10 * kMs_ns, 10'000 * kMs_ns, 0), Timing::kWritten);
  EXPECT_LT(at_ns.back() - at_ns[at_ns.size() - 2], 11 * kMs_ns);
}

TEST(Instants, RingsThatLostOperationsEndTogether) {
  // The newest 500 of 1,000, and all of 250: an operation of the one is a quarter of one of the other.
  std::vector<Operation> newest = Written(1'000, kMs_ns, 10'000 * kMs_ns, 0);
  newest.erase(newest.begin(), newest.begin() + 500);
  const std::vector<std::int64_t> many = InstantsOf(newest, Timing::kNone),
                                  few = InstantsOf(Written(250, 4 * kMs_ns, 10'000 * kMs_ns, 0), Timing::kNone);
  for (std::size_t i = 0; i < 125; ++i)
    EXPECT_NEAR(static_cast<double>(many[4 * i + 3]), static_cast<double>(few[125 + i]), 1e3);
}

}  // namespace
}  // namespace ncclwatch::analyzer::import::inspector
