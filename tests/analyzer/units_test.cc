#include "analyzer/console/units.h"

#include <gtest/gtest.h>

#include "analyzer/console/table.h"
#include "analyzer/console/terminal.h"
#include "analyzer/run/job_process.h"
#include "analyzer/run/setting_up.h"
#include "core/text/printable.h"

namespace ncclwatch::analyzer {
namespace {

TEST(Durations, AreReadInTheUnitsPeopleWrite) {
  EXPECT_EQ(ParseDuration("7d"), absl::Hours(7 * 24));
  EXPECT_EQ(ParseDuration("90"), absl::Seconds(90));
  EXPECT_EQ(ParseDuration("1.5h"), absl::Minutes(90));
  EXPECT_EQ(ParseDuration("250ms"), absl::Milliseconds(250));
  for (const char* wrong : {"", "d", "-1d", "7x", "7d ", "1e5", "nan", "inf", "99999999999999w"})
    EXPECT_EQ(ParseDuration(wrong), std::nullopt) << wrong;
}

TEST(Ranks, ListsAreParsedOrRefused) {
  EXPECT_EQ(ParseRanks("0,2,4-6"), (std::vector<int>{0, 2, 4, 5, 6}));
  for (const char* wrong : {"", "a", "1-", "3-1", "1,,2", "-1", "0-99999999"})
    EXPECT_EQ(ParseRanks(wrong), std::nullopt) << wrong;
}

TEST(Bytes, AreReadAndWrittenInPowersOf1024) {
  EXPECT_EQ(ParseBytes("4096"), 4096u);
  EXPECT_EQ(ParseBytes("64K"), 65536u);
  EXPECT_EQ(ParseBytes("1.5MiB"), 1572864u);
  EXPECT_EQ(ParseBytes("10G"), 10737418240u);
  EXPECT_EQ(ParseBytes("7B"), 7u);
  for (const char* wrong : {"", "K", "-1", "4X", "4 K", "4KK", "nan", "99999999999999999999"})
    EXPECT_EQ(ParseBytes(wrong), std::nullopt) << wrong;
  EXPECT_EQ(BytesText(0), "0 B");
  EXPECT_EQ(BytesText(1023), "1023 B");
  EXPECT_EQ(BytesText(4096), "4 KiB");
  EXPECT_EQ(BytesText(1572864), "1.5 MiB");
}

TEST(Durations, AreWrittenShort) {
  EXPECT_EQ(DurationText(absl::Nanoseconds(850)), "850 ns");
  EXPECT_EQ(DurationText(absl::Nanoseconds(12'400)), "12.4 us");
  EXPECT_EQ(DurationText(absl::Milliseconds(12'400)), "12.4 s");
  EXPECT_EQ(DurationText(absl::Seconds(200)), "3m20s");
  EXPECT_EQ(AgeText(absl::Hours(3 * 24)), "3 d");
}

TEST(Printable, NothingFromAFileReachesTheTerminalAsAnEscape) {
  EXPECT_EQ(Printable("a\033[2Jb\n"), "a?[2Jb?");
  EXPECT_EQ(Printable("caf\xc3\xa9"), "caf\xc3\xa9");
  EXPECT_EQ(Printable("\xff\xc2\x9b\xe2\x82"), "????");
}

TEST(Table, LeavesOutEmptyColumnsAndAligns) {
  Table table({{"A"}, {"EMPTY"}, {"N", true}});
  table.Add({"long name", "", "7"});
  table.Add({"x", "", "1000"});
  EXPECT_EQ(table.Text(), "A             N\nlong name     7\nx          1000\n");
}

TEST(Preload, KeepsWhatTheUserPreloads) {
  EXPECT_EQ(Preload("/l/libncclwatch.so", ""), "/l/libncclwatch.so");
  EXPECT_EQ(Preload("/l/libncclwatch.so", "/x/libother.so"), "/l/libncclwatch.so:/x/libother.so");
  EXPECT_EQ(Preload("/l/libncclwatch.so", "/x/libother.so /y/libncclwatch.so"), "/x/libother.so /y/libncclwatch.so");
}

TEST(JobStatus, IsWhatAShellWouldSay) {
  EXPECT_EQ(StatusOf(9), 137);
  EXPECT_EQ(StatusOf(3 << 8), 3);
  EXPECT_EQ(StatusOfFailure(ENOENT), 127);
  EXPECT_EQ(StatusOfFailure(EACCES), 126);
}

}  // namespace
}  // namespace ncclwatch::analyzer
