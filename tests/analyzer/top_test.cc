// What `ncclwatch top` makes of the positions of ranks, and of a narrow terminal.
#include <gtest/gtest.h>

#include "analyzer/top/compare.h"
#include "analyzer/top/frame.h"
#include "analyzer/top/header.h"
#include "analyzer/top/rows.h"

namespace ncclwatch::analyzer::top {
namespace {

// Ranks of one communicator that have made so many collectives, the newest one so long ago.
Job JobOf(const std::vector<std::uint64_t>& collectives, double since_s) {
  Job job;
  for (std::size_t i = 0; i < collectives.size(); ++i) {
    Process process;
    process.rank = static_cast<int>(i);
    job.processes.push_back(process);
    Member member;
    member.process = i;
    member.communicator = 7;
    member.size = static_cast<std::uint32_t>(collectives.size());
    member.collectives = collectives[i];
    member.since_s = since_s;
    member.op = "AllReduce";
    job.members.push_back(member);
  }
  Compare(&job);
  return job;
}

std::vector<int> RanksShown(const Job& job) {
  std::vector<int> ranks;
  for (const Member* const member : Choose(job, {})) ranks.push_back(job.processes[member->process].rank);
  return ranks;
}

TEST(Top, OneCollectiveBetweenRunningRanksIsNothing) {
  const Job job = JobOf({41, 42, 41, 42}, 0.01);
  EXPECT_EQ(RanksShown(job), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_TRUE(job.communicators[0].last.empty());
}

TEST(Top, OneCollectiveCountsOnceItLasts) {
  const Job job = JobOf({42, 42, 41, 42}, 5);
  EXPECT_EQ(RanksShown(job), (std::vector<int>{2, 0, 1, 3}));
  EXPECT_EQ(job.communicators[0].last, std::vector<int>{2});
}

TEST(Top, WhereMostAreLastTheOneAheadIsNamed) {
  const Job job = JobOf({43, 41, 41, 41}, 5);
  std::string text;
  for (const Line& line : HeaderOf(job, "")) text += line.text + '\n';
  EXPECT_NE(text.find("ahead: rank 0 (by 2 collectives)"), std::string::npos) << text;
  EXPECT_EQ(text.find("last:"), std::string::npos) << text;
}

TEST(Top, ANarrowTerminalCutsNoFinding) {
  Job job = JobOf({3, 3}, 0.01);
  const std::string summary = "Rank 1 is alive and has not called AllReduce of 4096 float32, collective 20";
  diagnosis::Finding& finding = job.assessment.findings.emplace_back();
  finding.kind = diagnosis::Kind::kMissingParticipant;
  finding.certainty = diagnosis::Certainty::kLikely;
  finding.summary = summary;
  std::string text;
  for (const Line& line : Display().Draw(job, "", 40, 30).lines) {
    EXPECT_LE(line.text.size(), 40u) << line.text;
    text += line.text + ' ';
  }
  for (const char* word : {"missing_participant", "(likely):", "4096", "collective", "20"})
    EXPECT_NE(text.find(word), std::string::npos) << word << " in " << text;
}

}  // namespace
}  // namespace ncclwatch::analyzer::top
