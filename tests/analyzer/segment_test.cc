// Segments keep what only another tool's trace tells: operations, members of groups, where a rank stands in its job.
#include "analyzer/segments/segment.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace ncclwatch::analyzer {
namespace {

using reader::Operation;
using reader::OperationKind;

reader::BoxImage Foreign() {
  reader::BoxImage image;
  image.host = "node1";
  image.pid = 7;
  image.rank = 3;
  image.stage = 1;
  image.replica = 2;
  image.dump = image.active_only = true;
  image.communicators.resize(2);
  for (std::uint32_t i = 0; i < 2; ++i) {
    image.communicators[i].index = i;
    image.communicators[i].size = 4;
    image.communicators[i].state = format::CommunicatorState::kReady;
  }
  image.communicators[1].members =
      std::make_shared<const std::vector<std::int32_t>>(std::vector<std::int32_t>{9, 3, -1, 4});
  image.operations.names = {"forward", "AllReduce"};
  image.operations.ordered = true;
  Operation forward{.began_ns = 1'000, .duration_ns = 50, .step = 4, .lane = 7, .kind = OperationKind::kCompute};
  Operation reduce{.began_ns = 900,
                   .duration_ns = 300,
                   .lane = 9,
                   .meets = 12,
                   .call = 1,
                   .bytes = 4096,
                   .name = 1,
                   .like = 0,
                   .kind = OperationKind::kCommunication,
                   .after = {0, 5}};
  image.operations.all = {forward, reduce};
  return image;
}

TEST(Segment, KeepsWhatAnotherToolTells) {
  const reader::BoxImage before = Foreign();
  const std::string segment = ToSegment(before, 0, 0, true);
  const auto after = ReadSegment(segment);
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ(after->stage, 1);
  EXPECT_EQ(after->replica, 2);
  EXPECT_TRUE(after->dump);
  EXPECT_TRUE(after->active_only);
  EXPECT_EQ(after->communicators[0].members, nullptr);
  EXPECT_EQ(*after->communicators[1].members, *before.communicators[1].members);
  EXPECT_EQ(after->operations.names, before.operations.names);
  EXPECT_TRUE(after->operations.ordered);
  ASSERT_EQ(after->operations.all.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    const Operation &a = after->operations.all[i], &b = before.operations.all[i];
    EXPECT_EQ(a.began_ns, b.began_ns);
    EXPECT_EQ(a.duration_ns, b.duration_ns);
    EXPECT_EQ(a.step, b.step);
    EXPECT_EQ(a.lane, b.lane);
    EXPECT_EQ(a.meets, b.meets);
    EXPECT_EQ(a.call, b.call);
    EXPECT_EQ(a.bytes, b.bytes);
    EXPECT_EQ(a.name, b.name);
    EXPECT_EQ(a.like, b.like);
    EXPECT_EQ(a.kind, b.kind);
    EXPECT_EQ(a.after, b.after);
  }
}

TEST(Segment, SaysHowManyOperationsItHas) {
  const auto index = ReadSegmentIndex(ToSegment(Foreign(), 0, 0, true));
  ASSERT_TRUE(index.ok()) << index.status();
  EXPECT_EQ(index->header.operations, 2u);
}

TEST(Segment, EveryDamagedByteIsNoticed) {
  const std::string whole = ToSegment(Foreign(), 0, 0, true);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
    EXPECT_FALSE(ReadSegment(damaged).ok()) << "byte " << i;
  }
}

}  // namespace
}  // namespace ncclwatch::analyzer
