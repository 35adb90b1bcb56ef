// The data of a replay: what is right passes, and one wrong element does not.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "analyzer/player/base/values.h"
#include "ncclwatch/functions/types.h"

namespace ncclwatch::player {
namespace {

constexpr std::uint8_t kInt32 = 2, kFloat32 = 7;          // of NCCL
constexpr std::uint8_t kSum = 0, kProduct = 1, kMax = 2;  // likewise

TEST(Values, BytesTellTheirRankAndTheirPlace) {
  std::vector<char> data(1000);
  FillBytes(data.data(), data.size(), 3);
  EXPECT_TRUE(BytesAre(data.data(), data.size(), 3));
  EXPECT_FALSE(BytesAre(data.data(), data.size(), 2));
  EXPECT_FALSE(BytesAre(data.data(), data.size(), 3, 1));
  EXPECT_TRUE(BytesAre(data.data() + 10, data.size() - 10, 3, 10));
  data[999] ^= 1;
  EXPECT_FALSE(BytesAre(data.data(), data.size(), 3));
}

// By plain arithmetic over what each rank is given.
TEST(Values, ReducedByHand) {
  constexpr int kRanks = 4;
  constexpr std::size_t kCount = 37;
  for (const std::uint8_t reduction : {kSum, kProduct, kMax}) {
    std::vector<std::int32_t> result(kCount), one(kCount);
    for (int rank = 0; rank < kRanks; ++rank) {
      FillNumbers(one.data(), kCount, kInt32, reduction, rank);
      for (std::size_t i = 0; i < kCount; ++i) {
        if (rank == 0)
          result[i] = one[i];
        else if (reduction == kSum)
          result[i] += one[i];
        else if (reduction == kProduct)
          result[i] *= one[i];
        else
          result[i] = std::max(result[i], one[i]);
      }
    }
    EXPECT_EQ(CheckReduced(result.data(), kCount, kInt32, reduction, kRanks), Listener::Data::kRight) << int{reduction};
    EXPECT_EQ(CheckReduced(result.data() + 5, kCount - 5, kInt32, reduction, kRanks, 5), Listener::Data::kRight);
    result[kCount - 1] += 1;
    EXPECT_EQ(CheckReduced(result.data(), kCount, kInt32, reduction, kRanks), Listener::Data::kWrong) << int{reduction};
  }
}

TEST(Values, FloatsOfOneRank) {
  std::vector<float> data(64);
  FillNumbers(data.data(), data.size(), kFloat32, kSum, 0);
  EXPECT_EQ(CheckReduced(data.data(), data.size(), kFloat32, kSum, 1), Listener::Data::kRight);
  data[7] += 0.5f;
  EXPECT_EQ(CheckReduced(data.data(), data.size(), kFloat32, kSum, 1), Listener::Data::kWrong);
}

TEST(Values, TypesThatCannotBeCounted) { EXPECT_EQ(NumberBytes(functions::kDerivedType), 0u); }

}  // namespace
}  // namespace ncclwatch::player
