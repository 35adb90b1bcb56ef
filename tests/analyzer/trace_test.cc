#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "analyzer/trace/filter.h"
#include "analyzer/trace/lines.h"
#include "analyzer/trace/print.h"
#include "analyzer/trace/row.h"

namespace ncclwatch::analyzer {
namespace {

reader::BoxImage BoxWith(const reader::Call& call) {
  reader::BoxImage box;
  box.rank = 2;
  box.pid = 10;
  box.realtime_minus_monotonic_ns = 1000;
  reader::Communicator communicator;
  communicator.id = 0x8f3c09d2a1b45e77;
  communicator.state = format::CommunicatorState::kReady;
  communicator.generation = call.generation;
  box.communicators.push_back(communicator);
  box.calls.push_back(call);
  return box;
}

reader::Call AllReduce() {
  reader::Call call;
  call.function = functions::Function::ncclAllReduce;
  call.entered_ns = 5000;
  call.returned_ns = 6000;
  call.position = 7;
  call.count = 4096;
  call.dtype = 9;
  call.reduction = 0;
  call.communicator = 0;
  call.result = 0;
  return call;
}

Facts OnlyFacts(const reader::BoxImage& box, std::int64_t now = 100'000) {
  return FactsOf(box, CommunicatorOf(box, box.calls.at(0)), box.calls.at(0), now);
}

Row OnlyRow(const reader::BoxImage& box, std::int64_t now = 100'000) { return RowOf(OnlyFacts(box, now)); }

TEST(Row, SaysWhatWasCalled) {
  const Row row = OnlyRow(BoxWith(AllReduce()));
  EXPECT_EQ(row.time, absl::FromUnixNanos(6000));
  EXPECT_EQ(row.op, "AllReduce");
  EXPECT_EQ(row.position, 7u);
  EXPECT_EQ(row.dtype, "bfloat16");
  EXPECT_EQ(row.reduction, "sum");
  EXPECT_EQ(row.state, "returned");
  EXPECT_EQ(row.duration, absl::Nanoseconds(1000));
  EXPECT_FALSE(row.pending);
}

TEST(Row, ACallInsideTheLibraryIsPendingUntilNow) {
  reader::Call call = AllReduce();
  call.returned_ns = 0;
  call.result = format::kNoResult;
  const Row row = OnlyRow(BoxWith(call));
  EXPECT_EQ(row.state, "entered");
  EXPECT_TRUE(row.pending);
  EXPECT_EQ(row.duration, absl::Nanoseconds(95'000));
  EXPECT_EQ(row.result, "");
}

TEST(Row, TestsThatFoundNothingHaveNotFailed) {
  reader::Call call = AllReduce();
  call.function = functions::Function::MPI_Testsome;
  call.flags = format::kPolls;
  call.result = format::kNoResult;
  const Row row = OnlyRow(BoxWith(call));
  EXPECT_EQ(row.state, "returned");
  EXPECT_EQ(row.result, "");
}

TEST(Row, AMarkTellsReturnedFromFinished) {
  reader::Call call = AllReduce();
  call.flags = format::kMarked;
  call.ticket = 3;
  reader::BoxImage box = BoxWith(call);
  EXPECT_EQ(OnlyRow(box).state, "returned");
  EXPECT_TRUE(OnlyRow(box).pending);
  box.calls[0].flags |= format::kStartMarked;
  box.calls[0].start = 2 * format::kStarts + 1;
  EXPECT_EQ(OnlyRow(box).state, "returned");
  box.communicators[0].starts[1] = box.calls[0].start;
  EXPECT_EQ(OnlyRow(box).state, "started");
  EXPECT_TRUE(OnlyRow(box).pending);
  box.communicators[0].marks[3] = 4;
  EXPECT_EQ(OnlyRow(box).state, "finished");
  EXPECT_FALSE(OnlyRow(box).pending);
}

TEST(Row, AReusedCommunicatorEntryIsNotTakenForTheOldOne) {
  reader::BoxImage box = BoxWith(AllReduce());
  box.communicators[0].generation = 1;
  EXPECT_EQ(OnlyRow(box).communicator, 0u);
}

TEST(Row, AnErrorIsFailedButInProgressIsNot) {
  reader::Call call = AllReduce();
  call.result = 5;
  EXPECT_EQ(OnlyRow(BoxWith(call)).state, "failed");
  EXPECT_EQ(OnlyRow(BoxWith(call)).result, "invalid usage");
  call.result = 7;
  EXPECT_EQ(OnlyRow(BoxWith(call)).state, "returned");
}

TEST(Row, APeerIsNoRoot) {
  reader::Call call = AllReduce();
  call.function = functions::Function::ncclSend;
  call.root = 1;
  EXPECT_EQ(OnlyRow(BoxWith(call)).peer, 1);
  EXPECT_EQ(OnlyRow(BoxWith(call)).root, std::nullopt);
  call.function = functions::Function::ncclBroadcast;
  EXPECT_EQ(OnlyRow(BoxWith(call)).root, 1);
}

std::string LineOf(const reader::BoxImage& box, LineForm form, const Site* site) {
  LineWriter writer(form);
  ByteBuffer line;
  writer.Append(OnlyFacts(box), writer.SiteCells(site), &line);
  return std::string(line.view());
}

TEST(LineWriter, WritesNumbersAndHostileTexts) {
  reader::Call call = AllReduce();
  call.returned_ns = call.entered_ns + 2455;  // 2.4549999999999998e-06 in JSON
  call.kernel = {.ns = 1'500'000'000, .clock = format::KernelClock::kGpu, .algorithm = format::Algorithm::kRing};
  reader::BoxImage box = BoxWith(call);
  box.host = "no\"de,\n1";
  box.communicators[0].label = "\x7f\xc2\x9b\xff";
  const Site site{.text = "train+0x1234", .source = {}, .line = "a, b"};
  const std::string line = LineOf(box, LineForm::kJson, &site);
  EXPECT_EQ(line.back(), '\n');
  const auto json = nlohmann::ordered_json::parse(line);
  EXPECT_EQ(json["host"], "no\"de,?1");
  EXPECT_EQ(json["label"], "???");
  EXPECT_EQ(json["time"], "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(json["entered"], "1970-01-01T00:00:00.000006Z");
  EXPECT_EQ(json["duration_s"], 2455 / 1e9);
  EXPECT_EQ(json["kernel"], nlohmann::ordered_json::parse(R"({"duration_s": 1.5, "clock": "gpu", "algorithm": "RING",
                                                    "protocol": null, "channels": 0})"));
  EXPECT_EQ(json["site_text"], "train+0x1234");
  EXPECT_TRUE(json["site"].is_null() && json["root"].is_null() && json["flags"].empty());
  const std::string cells = LineOf(box, LineForm::kCsv, &site);
  EXPECT_NE(cells.find(",\"no\"\"de,?1\",10,"), std::string::npos) << cells;
  EXPECT_NE(cells.find(R"("{""duration_s"":1.5,""clock"":""gpu"",""algorithm"":""RING"",""protocol"":null,)"),
            std::string::npos)
      << cells;
  EXPECT_NE(cells.find(",\"a, b\",train+0x1234,,nccl,"), std::string::npos) << cells;
  EXPECT_TRUE(cells.ends_with(",2455\n")) << cells;
}

TEST(Filter, MatchesByWhatAPersonKnows) {
  const reader::BoxImage box = BoxWith(AllReduce());
  const Facts facts = OnlyFacts(box);
  Filter filter;
  filter.ops = {"ncclallreduce"};
  EXPECT_TRUE(filter.ForCalls(box)(box.calls[0]));
  filter.ops = {"AllGather"};
  EXPECT_FALSE(filter.ForCalls(box)(box.calls[0]));
  filter.communicators = {"8f3c"};
  filter.ranks = {1, 2};
  EXPECT_TRUE(filter.Wants(facts));
  filter.ranks = {1};
  EXPECT_FALSE(filter.Wants(facts));
  filter.ranks = {};
  filter.pending = true;
  EXPECT_FALSE(filter.Wants(facts));
}

TEST(Filter, MomentsAreBeforeTheEndOrOfTheClock) {
  const absl::Time end = absl::FromUnixMillis(1'767'225'612'400);
  EXPECT_EQ(ParseMoment("30s", end), end - absl::Seconds(30));
  EXPECT_EQ(ParseMoment("2026-01-01T00:00:12.400Z", absl::UnixEpoch()), end);
  EXPECT_EQ(ParseMoment("25:00", end), std::nullopt);
  EXPECT_EQ(ParseMoment("14:03x", end), std::nullopt);
  EXPECT_NE(ParseMoment("14:03", end), std::nullopt);
}

TEST(Print, FitsAHundredColumnsUnlessWide) {
  std::vector<Row> rows{OnlyRow(BoxWith(AllReduce()))};
  const std::string text = ToTable(rows, false);
  EXPECT_NE(text.find("8f3c09d2"), std::string::npos);
  EXPECT_EQ(text.find("THREAD"), std::string::npos);
  EXPECT_LE(text.find('\n'), 100u);
}

}  // namespace
}  // namespace ncclwatch::analyzer
