// Known findings: what a line matches, and that the line which ncclwatch prints matches its own finding.
#include "core/model/ignore.h"

#include <gtest/gtest.h>

namespace ncclwatch::diagnosis {
namespace {

CallSummary Made(const std::string& op, const std::string& function, int line) {
  CallSummary call;
  call.ranks = {0, 1};
  call.op = op;
  call.mpi = true;
  call.site_text = "solver+0x1234";
  call.source = SourcePlace{.module = "/apps/solver", .file = "/src/halo.c", .line = line, .function = function};
  return call;
}

Finding Leak(std::vector<CallSummary> calls) {
  Finding finding;
  finding.kind = Kind::kResourceLeak;
  finding.calls = std::move(calls);
  Culprit culprit;
  culprit.host = "node07";
  finding.culprit_details = {culprit, culprit};
  return finding;
}

// How many of the findings stay.
std::size_t Left(const std::string& lines, std::vector<Finding> findings) {
  const IgnoreList list = ParseIgnoreList(lines);
  EXPECT_TRUE(list.wrong.empty()) << list.wrong.front();
  std::vector<IgnoredFindings> ignored;
  const std::size_t all = findings.size();
  LeaveOut(list.lines, &findings, &ignored);
  std::size_t counted = 0;
  for (const IgnoredFindings& one : ignored) counted += static_cast<std::size_t>(one.findings);
  EXPECT_EQ(counted + findings.size(), all);
  return findings.size();
}

TEST(Ignore, ALineMatchesByEachOfItsPatterns) {
  const Finding leak = Leak({Made("Recv_init", "MakeHalo", 12)});
  for (const char* line :
       {"resource_leak", "resource_leak call=MPI_Recv_init", "resource_leak call=Recv_*", "resource_leak at=MakeHalo",
        "resource_leak at=halo.c", "resource_leak at=halo.c:12", "resource_leak at=solver+0x*",
        "resource_leak call=*init at=Make* host=node0*   # known", "\n# a comment\n\tresource_leak\thost=node07\r\n"})
    EXPECT_EQ(Left(line, {leak}), 0u) << line;
  for (const char* line :
       {"", "# resource_leak", "request_error", "resource_leak call=MPI_Send_init", "resource_leak at=halo.c:13",
        "resource_leak at=MakeHal", "resource_leak communicator=tp", "resource_leak host=node08"})
    EXPECT_EQ(Left(line, {leak}), 1u) << line;
}

TEST(Ignore, ANewPlaceBesideAKnownOneIsReported) {
  const Finding leak = Leak({Made("Recv_init", "MakeHalo", 12), Made("Send_init", "MakeEdges", 80)});
  EXPECT_EQ(Left("resource_leak at=MakeHalo", {leak}), 1u);
  EXPECT_EQ(Left("resource_leak at=MakeHalo\nresource_leak at=MakeEdges", {leak}), 0u);
}

TEST(Ignore, ThePrintedLineLeavesOutItsOwnFinding) {
  Finding leak = Leak({Made("Recv_init", "Halo<int>::Make(int, char*)", 12), Made("Type_vector", "<module>", 7)});
  const std::vector<std::string> lines = IgnoreLinesFor(leak);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0], "resource_leak call=MPI_Recv_init at=Halo<int>::Make(int,*char*)");
  EXPECT_EQ(lines[1], "resource_leak call=MPI_Type_vector at=halo.c:7");
  EXPECT_EQ(Left(lines[0] + "\n" + lines[1], {leak}), 0u);

  Finding straggler = Leak({});
  straggler.kind = Kind::kStraggler;
  ASSERT_EQ(IgnoreLinesFor(straggler), std::vector<std::string>{"straggler host=node07"});
  EXPECT_EQ(Left("straggler host=node07", {straggler}), 0u);
}

TEST(Ignore, NoLineIsPrintedForWhatStopsAJob) {
  Finding dead = Leak({Made("Recv", "Step", 3)});
  dead.kind = Kind::kDeadRank;
  EXPECT_TRUE(IgnoreLinesFor(dead).empty());
}

TEST(Ignore, WhatExplainsAnotherFindingStaysUntilThatIsLeftOut) {
  Finding cause = Leak({}), consequence = Leak({}), other = Leak({});
  cause.kind = Kind::kStraggler;
  consequence.kind = Kind::kSlowCommunication;
  consequence.caused_by = 1;
  EXPECT_EQ(Left("straggler", {other, cause, consequence}), 3u);
  EXPECT_EQ(Left("straggler\nslow_communication", {other, cause, consequence}), 1u);

  std::vector<Finding> findings = {other, cause, consequence};
  std::vector<IgnoredFindings> ignored;
  LeaveOut(ParseIgnoreList("resource_leak").lines, &findings, &ignored);
  EXPECT_EQ(findings.at(1).caused_by, 0u);
  EXPECT_EQ(ignored, (std::vector<IgnoredFindings>{{"resource_leak", 1}}));
}

TEST(Ignore, WrongLinesAreNamedAndTheOthersCount) {
  const IgnoreList list = ParseIgnoreList("leak\nstraggler hots=a\nstraggler host=\nstraggler host=a\n");
  EXPECT_EQ(list.wrong,
            (std::vector<std::string>{"line 1: there is no kind 'leak'",
                                      "line 2: 'hots=a' is none of call=, at=, communicator=, host= with a pattern",
                                      "line 3: 'host=' is none of call=, at=, communicator=, host= with a pattern"}));
  ASSERT_EQ(list.lines.size(), 1u);
  EXPECT_EQ(list.lines.front().text, "straggler host=a");
}

}  // namespace
}  // namespace ncclwatch::diagnosis
