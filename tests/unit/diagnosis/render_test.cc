// The JSON's shape, and text that fits a terminal also for a thousand ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <sstream>

#include "core/diagnose.h"
#include "core/model/text.h"
#include "core/report/json_writer.h"
#include "core/report/render.h"
#include "tests/unit/support/job_builder.h"

namespace ncclwatch::testing {
namespace {

using diagnosis::Diagnosis;

TEST(Text, RankSets) {
  EXPECT_EQ(diagnosis::RankSet({0, 1, 2, 3, 5}), "0-3,5");
  EXPECT_EQ(diagnosis::RankSet({}), "");
  EXPECT_EQ(diagnosis::RankSet({-1, 7}), "7,?");
  EXPECT_EQ(diagnosis::Ranks({4}), "rank 4");
}

TEST(Text, Times) {
  EXPECT_EQ(diagnosis::UtcTime(1'767'225'612'400'000'000), "2026-01-01T00:00:12.400Z");
  EXPECT_EQ(diagnosis::UtcTime(951'782'400'000'000'000), "2000-02-29T00:00:00.000Z");
  EXPECT_EQ(diagnosis::UtcTime(-1'000'000), "1969-12-31T23:59:59.999Z");
  EXPECT_EQ(diagnosis::Seconds(12'400'000'000), "12.4 s");
}

TEST(Json, Escapes) {
  diagnosis::JsonWriter json;
  json.BeginObject().Key("a\"b").String("line\n\x01 \xc3\xa9 \xff").Key("list").BeginLine().Integer(1).Integer(-2);
  json.EndArray().Key("empty").BeginArray().EndArray().Key("s").Seconds(-0.0005).EndObject();
  EXPECT_EQ(json.Take(),
            "{\n  \"a\\\"b\": \"line\\u000a\\u0001 \xc3\xa9 \xef\xbf\xbd\",\n  \"list\": [1, -2],\n  \"empty\": [],\n"
            "  \"s\": -0.001\n}\n");
}

std::size_t LongestLine(const std::string& text) {
  std::istringstream lines(text);
  std::size_t longest = 0;
  for (std::string line; std::getline(lines, line);) longest = std::max(longest, line.size());
  return longest;
}

TEST(Text, FitsATerminalForAThousandRanks) {
  Job job(1024);
  std::vector<int> others = Range(0, 1024);
  std::erase(others, 517);
  job.Call(others, Job::kWorld, AllReduce());
  job.At(100);
  const auto start = std::chrono::steady_clock::now();
  const Diagnosis diagnosis = job.Diagnose();
  const std::string text = diagnosis::ToText(diagnosis);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  EXPECT_TRUE(text.starts_with("missing_participant (likely): rank 517 (node7 pid 5228)\n")) << text.substr(0, 200);
  EXPECT_LE(LongestLine(text), 100u) << text;
  EXPECT_NE(text.find("0-516,518-1023"), std::string::npos);
}

double SecondsToDiagnose(int ranks, int calls) {
  Job job(ranks);
  for (int i = 0; i < calls; ++i) {
    job.Pass(0.01);
    job.Done(Range(0, ranks), Job::kWorld, AllReduce(1 + static_cast<std::uint64_t>(i)));
  }
  job.Call(Range(1, ranks), Job::kWorld, AllReduce());
  job.Call({0}, Job::kWorld, AllGather());
  const diagnosis::Snapshot snapshot = job.Snapshot();
  const auto start = std::chrono::steady_clock::now();
  const Diagnosis diagnosis = diagnosis::Diagnose(snapshot);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(diagnosis.findings.at(0).culprits, std::vector<int>{0});
  return took.count();
}

TEST(Scale, GrowsLikeTheJob) {
  const double small = SecondsToDiagnose(256, 512);
  const double large = SecondsToDiagnose(1024, 512);
  RecordProperty("ms_for_1024_boxes_of_512_records", static_cast<int>(large * 1e3));
  std::printf("256 boxes: %.0f ms, 1024 boxes: %.0f ms\n", small * 1e3, large * 1e3);
  EXPECT_LT(large, small * 16 + 0.5);  // four times the boxes; loose, since the machine may be busy
}

TEST(Text, ControlCharactersDoNotReachTheTerminal) {
  Job job(2);
  for (int rank : {0, 1}) job.Entry(rank, Job::kWorld).label = "\x1b[31mred";
  job.Call({0}, Job::kWorld, AllReduce());
  EXPECT_EQ(diagnosis::ToText(job.DiagnoseAt(100)).find('\x1b'), std::string::npos);
}

TEST(Text, HealthySaysSoFirst) {
  Job job(2);
  EXPECT_TRUE(diagnosis::ToText(job.Diagnose()).starts_with("healthy"));
}

}  // namespace
}  // namespace ncclwatch::testing
