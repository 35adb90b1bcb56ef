#include "core/reader/witness.h"

#include <gtest/gtest.h>

namespace ncclwatch::reader {
namespace {

WitnessedEnd Killed(std::uint32_t pid, std::int64_t at_ns) {
  WitnessedEnd end;
  end.seen.at_ns = at_ns;
  end.seen.pid = pid;
  end.seen.start_time = 88012;
  end.seen.place = 0xabcdef01;
  end.seen.rank = 3;
  end.seen.what = format::Observed::kGone;
  end.seen.exit_flags = format::kExitKnown;
  end.seen.exit_signal = 9;
  end.ordered = end.others_lived = true;
  return end;
}

TEST(Witness, IsReadAsItWasWritten) {
  WitnessedEnd hidden = Killed(4712, 1001);
  hidden.seen.what = format::Observed::kHidden;
  hidden.seen.exit_signal = 0;
  hidden.seen.exit_status = 3;
  hidden.seen.rank = -1;
  hidden.ordered = hidden.others_lived = false;
  const std::string text = Format({Killed(4711, 1000), hidden});
  const auto read = ParseWitness(text);
  ASSERT_TRUE(read);
  ASSERT_EQ(read->size(), 2u);
  EXPECT_EQ(Format(*read), text);
  EXPECT_EQ(read->front().seen.exit_signal, 9);
  EXPECT_TRUE(read->front().others_lived);
  EXPECT_EQ(read->back().seen.what, format::Observed::kHidden);
}

TEST(Witness, UnknownKeywordsAndNamesArePassedOver) {
  const auto read =
      ParseWitness("ncclwatch.witness/1\nbegin 7\nend pid 5 colour blue start 9 at_ns 12 what gone ordered 1\n");
  ASSERT_TRUE(read);
  ASSERT_EQ(read->size(), 1u);
  EXPECT_EQ(read->front().seen.pid, 5u);
  EXPECT_TRUE(read->front().ordered);
}

TEST(Witness, NothingIsMadeOfDamage) {
  EXPECT_FALSE(ParseWitness(""));
  EXPECT_FALSE(ParseWitness("ncclwatch.witness/2\n"));
  for (const char* line : {"end", "end pid", "end pid x start 9 what gone", "end pid 5 start 9",
                           "end pid 0 start 9 what gone", "end pid 5 start 9 what gone signal 99999999999"})
    EXPECT_TRUE(ParseWitness("ncclwatch.witness/1\n" + std::string(line) + "\n")->empty()) << line;
}

TEST(Witness, LivingOthersAreOnlyTakenFromAnOrder) {
  const auto read = ParseWitness("ncclwatch.witness/1\nend pid 5 start 9 what gone others_lived 1\n");
  EXPECT_FALSE(read->front().others_lived);
}

}  // namespace
}  // namespace ncclwatch::reader
