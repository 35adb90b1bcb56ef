// The table of buffers that are in use.
#include <gtest/gtest.h>

#include <thread>

#include "shim/mpi/core/open_buffers.h"

namespace ncclwatch::shim::mpi {
namespace {

constinit OpenBuffers table;

OpenBuffer One(std::uintptr_t begin, std::uintptr_t end, Use use, std::uint64_t slot) {
  return {.piece = {begin, end}, .slot = slot, .begun_at = slot + 1000, .use = use};
}

class OpenBuffersTest : public ::testing::Test {
 protected:
  void TearDown() override {
    for (std::uint64_t slot = 0; slot < 100; ++slot) table.Remove(slot);
    EXPECT_TRUE(table.none());
  }
  static bool Forbidden(std::uintptr_t begin, std::uintptr_t end, Use use) {
    OpenBuffer found;
    return table.Find({begin, end}, use, 7, &found);
  }
};

TEST_F(OpenBuffersTest, WhatIsReceivedIntoIsForNobodyElse) {
  table.Add(One(100, 200, Use::kWritten, 1));
  EXPECT_TRUE(Forbidden(199, 300, Use::kRead));
  EXPECT_TRUE(Forbidden(50, 101, Use::kWritten));
  EXPECT_TRUE(Forbidden(120, 130, Use::kRead));
  EXPECT_TRUE(Forbidden(0, 1000, Use::kRead));
  EXPECT_FALSE(Forbidden(200, 300, Use::kWritten));
  EXPECT_FALSE(Forbidden(50, 100, Use::kWritten));
  EXPECT_FALSE(Forbidden(150, 150, Use::kWritten));
}

TEST_F(OpenBuffersTest, WhatIsSentMayBeRead) {
  table.Add(One(100, 200, Use::kRead, 1));
  EXPECT_FALSE(Forbidden(100, 200, Use::kRead));
  EXPECT_TRUE(Forbidden(100, 200, Use::kWritten));
}

TEST_F(OpenBuffersTest, ALineMayReceiveAgainAndAgainIntoOne) {
  table.Add(One(100, 200, Use::kWritten, 1));
  EXPECT_FALSE(table.Find({100, 200}, Use::kWritten, 1001));
  EXPECT_TRUE(table.Find({100, 200}, Use::kWritten, 1002));
  EXPECT_TRUE(table.Find({100, 199}, Use::kWritten, 1001));
  EXPECT_TRUE(table.Find({100, 200}, Use::kRead, 1001));
}

TEST_F(OpenBuffersTest, ItIsReportedWhoseTheBufferIs) {
  table.Add(One(100, 200, Use::kWritten, 1));
  table.Add(One(200, 300, Use::kWritten, 2));
  OpenBuffer found;
  ASSERT_TRUE(table.Find({250, 260}, Use::kRead, 7, &found));
  EXPECT_EQ(found.slot, 2u);
  EXPECT_EQ(found.begun_at, 1002u);
}

TEST_F(OpenBuffersTest, AnOperationTakesAllItsPiecesWithIt) {
  table.Add(One(100, 200, Use::kWritten, 1));
  table.Add(One(300, 400, Use::kRead, 1));
  table.Add(One(500, 600, Use::kWritten, 2));
  table.Remove(1);
  EXPECT_FALSE(Forbidden(100, 400, Use::kWritten));
  EXPECT_TRUE(Forbidden(500, 600, Use::kWritten));
  table.Remove(1);
  EXPECT_FALSE(table.none());
}

TEST_F(OpenBuffersTest, NothingIsNotKept) {
  table.Add(One(100, 100, Use::kWritten, 1));
  EXPECT_TRUE(table.none());
}

TEST_F(OpenBuffersTest, WhatEndsAccessesEndsThemAlone) {
  table.Add(One(100, 200, Use::kWritten, 1));
  OpenBuffer access = One(300, 400, Use::kWritten, 2);
  access.one_sided = true;
  table.Add(access);
  table.RemoveOneSided();
  EXPECT_TRUE(Forbidden(100, 200, Use::kRead));
  EXPECT_FALSE(Forbidden(300, 400, Use::kRead));
}

TEST_F(OpenBuffersTest, WhileTooManyAreOpenNothingIsAsked) {
  for (std::uint64_t slot = 0; slot < OpenBuffers::kFew; ++slot)
    table.Add(One(slot * 100, slot * 100 + 10, Use::kWritten, slot));
  EXPECT_FALSE(Forbidden(0, 1, Use::kRead));
  table.Add(One(5000, 5010, Use::kWritten, 50));  // no room: it is not known later either
  table.Remove(3);
  EXPECT_TRUE(Forbidden(0, 1, Use::kRead));
  EXPECT_FALSE(Forbidden(300, 301, Use::kRead));
  EXPECT_FALSE(Forbidden(5000, 5001, Use::kRead));
}

TEST(OpenBuffersOfManyThreads, HoldAsManyAsAreWanted) {
  static constinit OpenBuffers many;
  many.KeepMany();
  threaded.store(true);
  const auto add_from = [](std::uint64_t first) {
    for (std::uint64_t slot = first; slot < 1000; slot += 2)
      many.Add(One(slot * 100, slot * 100 + 10, Use::kWritten, slot));
  };
  std::thread other(add_from, 1);
  add_from(0);
  other.join();
  OpenBuffer found;
  ASSERT_TRUE(many.Find({99900, 99901}, Use::kRead, 7, &found));
  EXPECT_EQ(found.slot, 999u);
  for (std::uint64_t slot = 0; slot < 1000; ++slot) {
    ASSERT_TRUE(many.Find({slot * 100, slot * 100 + 1}, Use::kRead, 7)) << slot;
    many.Remove(slot);
  }
  EXPECT_TRUE(many.none());
  threaded.store(false);
}

}  // namespace
}  // namespace ncclwatch::shim::mpi
