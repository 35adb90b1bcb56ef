// Verdicts on composed roll calls: what is accused, what is not, and how sure the verdict is.
#include "analyzer/attach/judge.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ncclwatch::analyzer::attach {
namespace {

using diagnosis::Certainty;
using diagnosis::Finding;
using diagnosis::Kind;

constexpr double kBusy = 0.9;

// Four ranks that stand still in one call for four seconds; a test changes what it is about.
struct Job {
  RunningJob job{"torchrun 1", 4, 4, 100, "", false, {}};
  RollCall call;

  explicit Job(const std::string& in, bool to_one = false) {
    call.seconds = 4;
    call.looks = 5;
    for (int rank = 0; rank < 4; ++rank) {
      Standing one;
      one.rank = rank;
      one.pid = 100 + rank;
      one.host = "node";
      one.state = 'S';
      one.in = in;
      one.to_one = to_one;
      one.site = "main (train.c:10)";
      one.path = {{"train.c:main", 10}};
      call.ranks.push_back(one);
    }
  }

  Standing& at(int rank) { return call.ranks[static_cast<std::size_t>(rank)]; }

  void Elsewhere(int rank) {
    at(rank).in = "";
    at(rank).path = {{"train.c:main", 8}};
    at(rank).site = "load (train.c:8)";
  }

  std::optional<Finding> First() const {
    const diagnosis::Diagnosis verdict = Judge(job, call, 0);
    EXPECT_LE(verdict.findings.size(), 1U);
    return verdict.findings.empty() ? std::nullopt : std::optional(verdict.findings.front());
  }
};

void ExpectFound(const Job& job, Kind kind, const std::vector<int>& culprits,
                 Certainty certainty = Certainty::kSuspected) {
  const std::optional<Finding> first = job.First();
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->kind, kind) << first->summary;
  EXPECT_EQ(first->culprits, culprits) << first->summary;
  EXPECT_EQ(first->certainty, certainty) << first->summary;
}

TEST(AttachJudge, ARankElsewhereIsMissing) {
  Job job("MPI_Allreduce");
  job.Elsewhere(2);
  ExpectFound(job, Kind::kMissingParticipant, {2}, Certainty::kLikely);
}

TEST(AttachJudge, ARankThatWorksIsOnlySuspected) {
  Job job("MPI_Allreduce");
  job.Elsewhere(2);
  job.at(2).busy = kBusy;
  ExpectFound(job, Kind::kMissingParticipant, {2});
}

TEST(AttachJudge, AfterAShortLookNobodyIsLikely) {
  Job job("MPI_Allreduce");
  job.Elsewhere(2);
  job.call.seconds = 2;
  ExpectFound(job, Kind::kMissingParticipant, {2});
}

TEST(AttachJudge, ARankThatHasJustComeIsNotMissing) {
  Job job("MPI_Allreduce");
  for (Standing& one : job.call.ranks) one.step.text = "step 50";
  job.at(2).moving = true;
  job.at(2).step.text = "";  // not read of a native rank that moves
  EXPECT_FALSE(job.First());
  job.at(2).group = "MPI_COMM_WORLD";
  for (const int rank : {0, 1, 3}) job.at(rank).group_known = false;
  EXPECT_FALSE(job.First()) << "theirs may be the same";
}

TEST(AttachJudge, WhoeverIsInTheMajorityIsNotAccused) {
  Job job("all_reduce");
  for (const int rank : {0, 1, 3}) job.Elsewhere(rank);
  EXPECT_FALSE(job.First()) << "three that do something else wait for nobody";
}

TEST(AttachJudge, ARankThatCouldNotBeReadIsNotAccused) {
  Job job("MPI_Allreduce");
  job.Elsewhere(2);
  job.at(2).trouble = "not allowed";
  const std::optional<Finding> first = job.First();
  EXPECT_TRUE(!first || first->culprits.empty());
}

TEST(AttachJudge, RanksThatWaitForTheirGpusAreLeftAlone) {
  Job job("cudaStreamSynchronize");
  for (Standing& one : job.call.ranks) one.of_device = true;
  EXPECT_FALSE(job.First()) << "their work may take long";
  job.Elsewhere(2);
  job.at(2).busy = kBusy;
  EXPECT_FALSE(job.First()) << "it computes, and they may have work of their own";
  job.at(2).busy = 0;
  ExpectFound(job, Kind::kMissingParticipant, {2});
}

TEST(AttachJudge, WithoutAMajorityOfGpusNobodyIsAccused) {
  Job job("cudaStreamSynchronize");
  for (Standing& one : job.call.ranks) one.of_device = true;
  for (const int rank : {0, 1}) job.at(rank).step.text = "step 7";
  EXPECT_FALSE(job.First());
}

TEST(AttachJudge, AnotherStepInOneLine) {
  for (const bool of_device : {false, true}) {
    Job job(of_device ? "cudaStreamSynchronize" : "all_reduce");
    for (Standing& one : job.call.ranks) {
      one.of_device = of_device;
      one.step.text = one.rank == 0 ? "step 20" : "step 21";
    }
    ExpectFound(job, Kind::kMissingParticipant, {0});
  }
}

TEST(AttachJudge, StagesOfAPipelineAreAtDifferentSteps) {
  Job job("recv", true);
  for (Standing& one : job.call.ranks) one.step.text = one.rank == 0 ? "step 20" : "step 21";
  ExpectFound(job, Kind::kDeadlock, {0, 1, 2, 3});
}

TEST(AttachJudge, AHostFunctionThatDoesNotEnd) {
  Job job("cudaStreamSynchronize");
  for (Standing& one : job.call.ranks) one.of_device = true;
  job.at(2).host_function = "Log (train.cc:17)";
  ExpectFound(job, Kind::kDeviceStall, {2});
  EXPECT_NE(job.First()->summary.find("Log (train.cc:17)"), std::string::npos);
  for (Standing& one : job.call.ranks) one.host_function = "Log (train.cc:17)";
  EXPECT_FALSE(job.First()) << "all have one: that is how the program works";
}

TEST(AttachJudge, AnotherWorldSizeAtTheStart) {
  Job job("ncclCommInitRank");
  for (Standing& one : job.call.ranks) one.rendezvous = one.rank == 2 ? "WORLD_SIZE=8" : "WORLD_SIZE=4";
  ExpectFound(job, Kind::kInitializationHang, {2});
  job.at(1).rendezvous = "";
  ExpectFound(job, Kind::kInitializationHang, {});
}

TEST(AttachJudge, AnotherCommunicatorInOneLine) {
  Job job("MPI_Barrier");
  for (Standing& one : job.call.ranks) one.group = one.rank == 2 ? "MPI COMMUNICATOR 3 DUP FROM 0" : "MPI_COMM_WORLD";
  ExpectFound(job, Kind::kMissingParticipant, {2});
  job.at(2).group = "";
  job.at(2).group_known = false;
  ExpectFound(job, Kind::kTransportStall, {});
}

TEST(AttachJudge, AMinorityInAnotherCall) {
  Job job("MPI_Bcast");
  job.at(2).in = "MPI_Barrier";
  job.at(2).path = {{"train.c:main", 12}};
  ExpectFound(job, Kind::kMissingParticipant, {2});
}

TEST(AttachJudge, HalfOfThemInAnEarlierCallAreBehind) {
  Job job("MPI_Bcast");
  for (const int rank : {1, 3}) job.at(rank).path = {{"train.c:main", 14}};
  ExpectFound(job, Kind::kMissingParticipant, {0, 2});
}

TEST(AttachJudge, ACollectiveThatDoesNotEndHasNoCulprit) {
  ExpectFound(Job("MPI_Allreduce"), Kind::kTransportStall, {});
}

TEST(AttachJudge, ARingOfReceivesIsADeadlock) { ExpectFound(Job("MPI_Recv", true), Kind::kDeadlock, {0, 1, 2, 3}); }

TEST(AttachJudge, TheEndOfAChainOfMessages) {
  Job job("recv", true);
  for (Standing& one : job.call.ranks) one.peer = one.rank - 1;
  job.at(0).to_one = false;
  job.at(0).in = "barrier";
  job.at(0).path = {{"train.c:main", 12}};
  ExpectFound(job, Kind::kMissingParticipant, {0});
}

TEST(AttachJudge, TwoThatWaitForEachOther) {
  Job job("recv", true);
  for (Standing& one : job.call.ranks) one.peer = one.rank == 1 ? 2 : one.rank == 2 ? 1 : 2;
  ExpectFound(job, Kind::kDeadlock, {1, 2});
}

TEST(AttachJudge, AMessageAndACollectiveInACycle) {
  Job job("all_reduce");
  job.at(2).in = "recv";
  job.at(2).to_one = true;
  job.at(2).peer = 0;
  job.at(2).path = {{"train.c:main", 12}};
  ExpectFound(job, Kind::kDeadlock, {0, 2});
  job.at(0).group = "tensor";  // whose members are not known
  ExpectFound(job, Kind::kMissingParticipant, {0});
}

TEST(AttachJudge, AnUnknownPeerLeavesTheMinority) {
  Job job("all_reduce");
  job.at(2).in = "recv";
  job.at(2).to_one = true;
  job.at(2).path = {{"train.c:main", 12}};
  ExpectFound(job, Kind::kPointToPointMismatch, {2});
}

TEST(AttachJudge, ARankThatIsGone) {
  Job job("MPI_Allreduce");
  job.call.ranks.erase(job.call.ranks.begin() + 1);
  ExpectFound(job, Kind::kDeadRank, {1});
  job.job.age_s = 3;
  ExpectFound(job, Kind::kTransportStall, {});  // it may not have been started yet
}

TEST(AttachJudge, AStoppedRank) {
  Job job("MPI_Allreduce");
  job.at(3).state = 'T';
  ExpectFound(job, Kind::kFrozenProcess, {3}, Certainty::kLikely);
  job.at(3).state = 't';
  ExpectFound(job, Kind::kFrozenProcess, {3});
}

}  // namespace
}  // namespace ncclwatch::analyzer::attach
