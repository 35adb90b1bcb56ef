// invalid_argument, request_error, resource_leak, library_error: what processes have noted of themselves, and what is made of it.
#include <gtest/gtest.h>

#include <csignal>

#include "tests/unit/diagnosis/verdicts.h"
#include "tests/unit/support/mpi_job.h"

namespace ncclwatch::testing {
namespace {

using diagnosis::Certainty;
using diagnosis::Diagnosis;
using diagnosis::Kind;
using format::Wrong;

reader::Misuse& Note(MpiJob* job, int rank, Wrong wrong, Function function, std::int32_t result = format::kNoResult) {
  std::vector<reader::Misuse>& misuses = job->Box(rank).words.misuses;
  misuses.push_back({.at_ns = job->now_ns(),
                     .site = 0x401234,
                     .made_at = 0x401200,
                     .value = 9,
                     .limit = 4,
                     .times = 1,
                     .wrong = wrong,
                     .function = function,
                     .made_by = Function::MPI_Isend,
                     .result = result,
                     .site_name = "/app/train+0x1234",
                     .made_at_name = "/app/train+0x1200"});
  return misuses.back();
}

void DiesInFinalize(MpiJob* job, int rank) {
  job->Collective(rank, Function::MPI_Finalize);
  job->Pass(0.01);
  job->Die(rank, Job::Signal(6));
}

TEST(MpiMisuse, IsCertainAndSaysWhereAndWhat) {
  MpiJob job(4);
  Note(&job, 2, Wrong::kRankOutOfRange, Function::MPI_Send);
  const Diagnosis diagnosis = job.Diagnose();
  Expect(diagnosis, Kind::kInvalidArgument, Certainty::kCertain, {2});
  const std::string& summary = diagnosis.findings.at(0).summary;
  EXPECT_NE(summary.find("called MPI_Send at train+0x1234: there is no rank 9: the communicator has 4 ranks"),
            std::string::npos)
      << summary;
}

TEST(MpiMisuse, OfSeveralRanksAtOnePlaceIsOneFinding) {
  MpiJob job(4);
  for (const int rank : {0, 1, 3}) Note(&job, rank, Wrong::kUncommittedType, Function::MPI_Send);
  const Diagnosis diagnosis = job.Diagnose();
  EXPECT_EQ(diagnosis.findings.size(), 1u);
  Expect(diagnosis, Kind::kInvalidArgument, Certainty::kCertain, {0, 1, 3});
}

// A program that asks for errors and gets one may have wanted to know.
TEST(MpiMisuse, ThatMpiRefusedAndTheProgramSurvivedIsNone) {
  MpiJob job(4);
  Note(&job, 2, Wrong::kRankOutOfRange, Function::MPI_Send, 6);
  EXPECT_TRUE(job.Diagnose().healthy());
  job.Die(2, Job::Signal(11));
  Expect(job.Diagnose(), Kind::kInvalidArgument, Certainty::kLikely, {2});
}

// ... nor is it one while MPI has not answered yet, which takes long where there are few processors.
TEST(MpiMisuse, ThatMpiMayYetRefuseAndTellTheProgramIsPutOff) {
  MpiJob job(4);
  Note(&job, 2, Wrong::kRankOutOfRange, Function::MPI_Send).tells_program = true;
  EXPECT_TRUE(job.Diagnose().healthy());
  job.Pass(0.4);
  EXPECT_TRUE(job.Diagnose().healthy());
  job.Pass(0.2);
  Expect(job.Diagnose(), Kind::kInvalidArgument, Certainty::kLikely, {2});
  job.Die(2, Job::Signal(6));
  Expect(job.Diagnose(), Kind::kInvalidArgument, Certainty::kCertain, {2});
}

TEST(MpiMisuse, OfAHandleThatMpiTakesIsNotCertain) {
  MpiJob job(4);
  Note(&job, 1, Wrong::kStaleRequest, Function::MPI_Wait, 0);
  Expect(job.Diagnose(), Kind::kRequestError, Certainty::kLikely, {1});
}

TEST(MpiMisuse, ThatMpiEndsTheProcessOverIsTheCause) {
  MpiJob job(4);
  Note(&job, 2, Wrong::kNullCommunicator, Function::MPI_Barrier);
  job.Pass(0.01);
  job.Die(2, Job::Status(5));
  const Diagnosis diagnosis = job.Diagnose();
  Expect(diagnosis, Kind::kInvalidArgument, Certainty::kCertain, {2});
  for (std::size_t i = 1; i < diagnosis.findings.size(); ++i) EXPECT_EQ(diagnosis.findings[i].caused_by, 0u);
}

TEST(MpiMisuse, ThatMpiItselfRefusesIsALibraryError) {
  MpiJob job(4);
  Note(&job, 2, Wrong::kRefusedCommunicator, Function::MPI_Barrier);
  job.Pass(0.01);
  job.Die(2, Job::Status(5));
  const Diagnosis diagnosis = job.Diagnose();
  Expect(diagnosis, Kind::kLibraryError, Certainty::kCertain, {2});
  const diagnosis::Finding& finding = diagnosis.findings.at(0);
  EXPECT_NE(finding.summary.find("called MPI_Barrier at train+0x1234: MPI refuses the communicator (MPI_ERR_COMM)"),
            std::string::npos)
      << finding.summary;
  EXPECT_EQ(finding.calls.at(0).op, "Barrier");
}

// Its sender may have sent too much.
TEST(MpiMisuse, ThatAMessageIsCutIsNotCertain) {
  MpiJob job(4);
  Note(&job, 2, Wrong::kTruncated, Function::MPI_Recv);
  job.Pass(0.01);
  job.Die(2, Job::Status(15));
  Expect(job.Diagnose(), Kind::kLibraryError, Certainty::kLikely, {2});
}

// The clocks of records and of words may be apart by some microseconds.
TEST(MpiMisuse, IsTheCauseOfItsOwnDeathWhateverTheClocksSay) {
  MpiJob job(4);
  job.Collective(2, Function::MPI_Barrier);
  Note(&job, 2, Wrong::kNullCommunicator, Function::MPI_Barrier).at_ns += 2'000'000;
  job.Pass(0.01);
  for (const int rank : {0, 1, 3}) job.Collective(rank, Function::MPI_Allreduce);
  job.Pass(0.01);
  job.Die(2, Job::Status(5));
  Expect(job.Diagnose(), Kind::kInvalidArgument, Certainty::kCertain, {2});
}

TEST(MpiMisuse, ALeakComesAfterEverythingElse) {
  MpiJob job(4);
  Note(&job, 0, Wrong::kLeftTypes, Function::MPI_Finalize);
  job.Other(0, Function::MPI_Finalize);
  Expect(job.Diagnose(), Kind::kResourceLeak, Certainty::kCertain, {0});
  job.Pass(0.01);
  Note(&job, 3, Wrong::kNeverCompleted, Function::MPI_Finalize);
  const Diagnosis diagnosis = job.Diagnose();
  Expect(diagnosis, Kind::kRequestError, Certainty::kCertain, {3});
  ASSERT_EQ(diagnosis.findings.size(), 2u);
  EXPECT_EQ(diagnosis.findings[1].kind, Kind::kResourceLeak);
}

TEST(MpiMisuse, ALeakOfAllIsReportedOnce) {
  MpiJob job(3);
  for (int rank = 0; rank < 3; ++rank) {
    Note(&job, rank, Wrong::kLeftCommunicators, Function::MPI_Finalize).value = 1;
    job.Other(rank, Function::MPI_Finalize);
  }
  const Diagnosis diagnosis = job.Diagnose();
  Expect(diagnosis, Kind::kResourceLeak, Certainty::kCertain, {0, 1, 2});
  const diagnosis::Finding& finding = diagnosis.findings.at(0);
  EXPECT_EQ(finding.summary,
            "Ranks 0-2 called MPI_Finalize: 1 communicator was not freed (MPI_Isend at train+0x1200).");
  EXPECT_EQ(finding.evidence.size(), 2u);
  ASSERT_EQ(finding.calls.size(), 1u);
  EXPECT_EQ(finding.calls[0].ranks, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(finding.calls[0].op, "Isend");
  EXPECT_EQ(finding.calls[0].site_text, "train+0x1200");
}

TEST(MpiMisuse, ALeakIsNoProblem) {
  MpiJob job(2);
  for (int rank = 0; rank < 2; ++rank) job.Other(rank, Function::MPI_Finalize);
  Note(&job, 0, Wrong::kLeftTypes, Function::MPI_Finalize);
  EXPECT_TRUE(job.Diagnose().healthy());
  Note(&job, 1, Wrong::kNeverCompleted, Function::MPI_Finalize);
  EXPECT_FALSE(job.Diagnose().healthy());
}

// A callback of MPI_Finalize may free it yet.
TEST(MpiMisuse, ALeakIsLikelyWhileItsRankStaysInFinalize) {
  MpiJob job(2);
  Note(&job, 0, Wrong::kLeftTypes, Function::MPI_Finalize);
  job.Finalize(0);
  Expect(job.Diagnose(), Kind::kResourceLeak, Certainty::kCertain, {0});
  job.Pass(2.0);
  Expect(job.Diagnose(), Kind::kResourceLeak, Certainty::kLikely, {0});
  job.Die(0, Job::Signal(SIGTERM));
  Expect(job.Diagnose(), Kind::kResourceLeak, Certainty::kLikely, {0});
}

TEST(MpiMisuse, ALeakThatMpiFinalizeDiesOfComesFirst) {
  MpiJob job(4);
  Note(&job, 2, Wrong::kLeftWindows, Function::MPI_Finalize);
  DiesInFinalize(&job, 2);
  Expect(job.Diagnose(), Kind::kResourceLeak, Certainty::kCertain, {2});
}

TEST(MpiMisuse, LaterThanTheInstantJudgedIsNotKnown) {
  MpiJob job(4);
  Note(&job, 2, Wrong::kRankOutOfRange, Function::MPI_Send).at_ns += 1'000'000'000;
  reader::Words words = job.Box(2).words;
  reader::RollBack(job.now_ns(), &words);
  EXPECT_TRUE(words.misuses.empty());
}

TEST(MpiMisuse, EverySortHasATextThatFits) {
  char text[256];
  for (const format::MisuseInfo& info : format::kMisuseTexts) {
    const std::size_t size = format::MisuseText(info.wrong, INT64_MIN, INT64_MAX, text, sizeof text);
    EXPECT_LT(size, sizeof text - 1) << info.text;
    EXPECT_EQ(std::string(text).find('{'), std::string::npos) << text;
  }
  EXPECT_EQ(format::MisuseText(Wrong::kRankOutOfRange, 1, 2, text, 8), 7u);
}

}  // namespace
}  // namespace ncclwatch::testing
