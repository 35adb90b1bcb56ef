// Ranks of MPI that are gone within a millisecond of one another: who was first, and who only followed.
#include <gtest/gtest.h>

#include <csignal>

#include "core/diagnose.h"
#include "core/view/from_boxes.h"
#include "tests/unit/diagnosis/verdicts.h"
#include "tests/unit/support/mpi_job.h"

namespace ncclwatch::testing {
namespace {

using diagnosis::Certainty;
using diagnosis::Diagnosis;
using diagnosis::Kind;

struct End {
  int rank = 0;
  Job::Exit exit = Job::Signal(SIGKILL);
};

// All but the one wait in a collective that it has not entered.
MpiJob WaitingFor(int ranks, int odd) {
  MpiJob job(ranks);
  job.At(1);
  for (int rank = 0; rank < ranks; ++rank)
    if (rank != odd) job.Collective(rank, Function::MPI_Allreduce);
  job.Pass(0.1);
  return job;
}

// In exit(), without MPI_Finalize.
void LeaveOpen(MpiJob* job, int rank) {
  reader::BoxImage& box = job->Box(rank);
  box.state = format::ProcessState::kExiting;
  box.last_words.written = true;
  box.last_words.at_ns = job->now_ns();
}

reader::WitnessedEnd Seen(MpiJob* job, const End& end, std::int64_t at_ns) {
  reader::WitnessedEnd witnessed;
  reader::Observation& seen = witnessed.seen;
  seen.at_ns = at_ns;
  seen.pid = job->Box(end.rank).pid;
  seen.start_time = job->Box(end.rank).start_time;
  seen.rank = end.rank;
  seen.what = format::Observed::kGone;
  seen.exit_flags = format::kExitKnown;
  seen.exit_signal = end.exit.signal;
  seen.exit_status = std::max(end.exit.status, 0);
  witnessed.ordered = true;
  return witnessed;
}

// By somebody outside, in this order, a few microseconds apart.
reader::Witness Ends(MpiJob* job, const std::vector<End>& ends, bool others_lived = false) {
  reader::Witness witness;
  for (const End& end : ends) {
    witness.push_back(Seen(job, end, job->now_ns() + 1000 * static_cast<std::int64_t>(witness.size())));
    job->Silence(end.rank);
  }
  witness.front().others_lived = others_lived;
  return witness;
}

Diagnosis Diagnose(MpiJob* job, const reader::Witness& witness) {
  return diagnosis::Diagnose(diagnosis::FromBoxes(job->Snapshot().boxes, {}, witness));
}

const std::vector<End> kTwoFirst = {{2}, {0}, {3}, {1}};

TEST(KilledWithOthers, TheFirstIsCertainIfTheOthersLivedAfterIt) {
  MpiJob job = WaitingFor(4, 2);
  const Diagnosis diagnosis = Diagnose(&job, Ends(&job, kTwoFirst, true));
  Expect(diagnosis, Kind::kDeadRank, Certainty::kCertain, {2});
  EXPECT_EQ(diagnosis.findings.size(), 1u);
}

TEST(KilledWithOthers, WhoeverKillsAllLeavesAnOrderToo) {
  MpiJob job = WaitingFor(4, 2);
  Expect(Diagnose(&job, Ends(&job, kTwoFirst)), Kind::kDeadRank, Certainty::kLikely, {2});
}

TEST(KilledWithOthers, WithoutAnOrderAllAreNamed) {
  MpiJob job = WaitingFor(4, 2);
  reader::Witness witness = Ends(&job, {{0}, {1}, {2}, {3}});
  for (reader::WitnessedEnd& end : witness) end.ordered = false;
  Expect(Diagnose(&job, witness), Kind::kDeadRank, Certainty::kLikely, {0, 1, 2, 3});
}

// It was gone before `ncclwatch run` could look at it.
TEST(KilledWithOthers, OneThatNobodySawEndMayHaveBeenFirst) {
  MpiJob job = WaitingFor(2, 1);
  reader::Witness witness = Ends(&job, {{0}, {1}});
  for (reader::WitnessedEnd& end : witness) end.ordered = false;
  witness[1].seen.exit_flags = 0;
  witness[1].seen.exit_signal = 0;
  Expect(Diagnose(&job, witness), Kind::kDeadRank, Certainty::kLikely, {0, 1});
}

TEST(KilledWithOthers, OneWithoutAnOrderMayHaveBeenFirst) {
  MpiJob job = WaitingFor(4, 2);
  reader::Witness witness = Ends(&job, {{2}, {0}, {1}, {3}});
  witness.back().ordered = false;
  Expect(Diagnose(&job, witness), Kind::kDeadRank, Certainty::kLikely, {2, 3});
}

TEST(KilledWithOthers, ACrashIsCertain) {
  MpiJob job = WaitingFor(4, 2);
  Expect(Diagnose(&job, Ends(&job, {{2, Job::Signal(SIGSEGV)}, {0}, {1}, {3}})), Kind::kDeadRank, Certainty::kCertain,
         {2});
}

TEST(KilledWithOthers, AStatusIsCertain) {
  MpiJob job = WaitingFor(4, 2);
  Expect(Diagnose(&job, Ends(&job, {{2, Job::Status(3)}, {0}, {1}, {3}})), Kind::kDeadRank, Certainty::kCertain, {2});
}

TEST(KilledWithOthers, WhoLeavesNormallyIsEarly) {
  MpiJob job = WaitingFor(4, 2);
  Expect(Diagnose(&job, Ends(&job, {{2, Job::Status(0)}, {0}, {1}, {3}})), Kind::kEarlyExit, Certainty::kCertain, {2});
}

TEST(KilledWithOthers, WhatASignalToTheJobHasEndedIsNobodysFault) {
  MpiJob job = WaitingFor(4, 2);
  EXPECT_TRUE(Diagnose(&job, Ends(&job, {{0, Job::Signal(SIGTERM)}, {2}, {1, Job::Signal(SIGTERM)}, {3}})).healthy());
}

TEST(KilledWithOthers, WhoIsKilledInsideFinalizeIsNoCulprit) {
  MpiJob job(4);
  job.At(1);
  job.Other(0, Function::MPI_Finalize);
  job.Pass(0.01);
  const Diagnosis diagnosis = Diagnose(&job, Ends(&job, {{2, Job::Status(0)}, {0}, {3}, {1}}));
  for (const diagnosis::Finding& finding : diagnosis.findings) EXPECT_EQ(finding.culprits, std::vector<int>{2});
}

// All leave without MPI_Finalize; the launcher kills those that are slower than the first.
TEST(KilledWithOthers, WhoIsKilledOnTheWayOutIsNoCulpritOfThat) {
  MpiJob job(4);
  job.At(1);
  for (int rank = 0; rank < 4; ++rank) LeaveOpen(&job, rank);
  const Diagnosis diagnosis = Diagnose(&job, Ends(&job, {{1, Job::Status(0)}, {3}, {0, Job::Status(0)}, {2}}));
  Expect(diagnosis, Kind::kMissingFinalize, Certainty::kCertain, {0, 1, 2, 3});
  EXPECT_EQ(diagnosis.findings.size(), 1u);
}

// MPI ends the job over a message that is too long without any call; the launcher may kill another rank first.
TEST(KilledWithOthers, WhoDiedInAReceiveThatWasTooShort) {
  MpiJob job(4);
  job.At(1);
  job.Sent(1, {.peer = 3, .bytes = 48});
  job.Sent(0, {.peer = 3, .bytes = 24});
  job.Recv(3, {.peer = kAny, .bytes = 24});
  job.Pass(0.01);
  const Diagnosis diagnosis = Diagnose(&job, Ends(&job, {{2}, {0}, {3}, {1}}));
  Expect(diagnosis, Kind::kPointToPointMismatch, Certainty::kLikely, {1, 3});
}

TEST(KilledWithOthers, AbortComesFirstWhoeverIsKilledFirst) {
  MpiJob job = WaitingFor(4, 2);
  job.Other(2, Function::MPI_Abort);
  job.Pass(0.0005);
  const Diagnosis diagnosis = Diagnose(&job, Ends(&job, {{0}, {2}, {1}, {3}}));
  Expect(diagnosis, Kind::kDeadRank, Certainty::kCertain, {2});
  EXPECT_NE(diagnosis.findings[0].summary.find("MPI_Abort"), std::string::npos) << diagnosis.findings[0].summary;
}

// Its launcher kills it later than others, perhaps after its watchdog has seen them die.
TEST(KilledWithOthers, WhoIsKilledWhileAnotherAbortsIsNoCulprit) {
  MpiJob job = WaitingFor(4, 2);
  job.Other(2, Function::MPI_Abort);
  job.Pass(0.0005);
  job.Die(0, Job::Signal(SIGKILL));
  job.Pass(0.1);
  EXPECT_TRUE(job.Diagnose().healthy());
}

TEST(KilledWithOthers, OnlyIfTheOthersLiveOnTheirEndWasNotTheSame) {
  MpiJob job = WaitingFor(4, 2);
  job.Die(2, Job::Signal(SIGKILL));
  EXPECT_TRUE(job.Diagnose().healthy());
  job.Pass(0.1);
  Expect(job.Diagnose(), Kind::kDeadRank, Certainty::kCertain, {2});
}

TEST(KilledWithOthers, WhoEndsForWantOfItsLauncherIsNoCulprit) {
  MpiJob job = WaitingFor(4, 2);
  for (int rank = 0; rank < 4; ++rank) {
    LeaveOpen(&job, rank);
    job.Box(rank).last_words.signal = SIGHUP;
  }
  const auto gone = Job::Status(195);
  EXPECT_TRUE(Diagnose(&job, Ends(&job, {{2, gone}, {0, gone}, {3, gone}, {1, gone}}, true)).healthy());
}

TEST(KilledWithOthers, WhoAbortsAfterAnErrorMayHaveLearntOfAnotherEnd) {
  MpiJob job = WaitingFor(4, 2);
  job.Return(2, job.Collective(2, Function::MPI_Barrier), 16);
  job.Other(2, Function::MPI_Abort);
  job.Pass(0.0005);
  Expect(Diagnose(&job, Ends(&job, {{0}, {2}, {1}, {3}})), Kind::kDeadRank, Certainty::kLikely, {2});
}

TEST(KilledWithOthers, SilentWhereARankIsOutOfSight) {
  MpiJob job = WaitingFor(4, 2);
  for (int rank = 0; rank < 4; ++rank) job.Box(rank).world_size = 6;
  EXPECT_TRUE(Diagnose(&job, Ends(&job, kTwoFirst, true)).clean());
}

TEST(KilledWithOthers, OfOthersThanMpiTheOrderTellsNothing) {
  Job job = Running(4);
  job.Call({0, 1, 3}, kWorld, AllReduce());
  reader::Witness witness;
  for (const int rank : {2, 0, 1, 3}) {
    reader::WitnessedEnd end;
    end.seen.at_ns = job.now_ns() + rank;
    end.seen.pid = job.Box(rank).pid;
    end.seen.start_time = job.Box(rank).start_time;
    end.seen.what = format::Observed::kGone;
    end.seen.exit_flags = format::kExitKnown;
    end.seen.exit_signal = SIGKILL;
    end.ordered = end.others_lived = true;
    witness.push_back(end);
  }
  const diagnosis::Snapshot snapshot = diagnosis::FromBoxes(job.Snapshot().boxes, {}, witness);
  EXPECT_TRUE(snapshot.ends.empty());
}

TEST(KilledWithOthers, ALeaderThatSawTwoAtOneLookIsReportedWhoWasFirst) {
  MpiJob job = WaitingFor(4, 2);
  const reader::Witness witness = Ends(&job, {{2}, {1}});
  job.Pass(0.002);
  job.Die(1, Job::Signal(SIGKILL));
  job.Die(2, Job::Signal(SIGKILL));
  Expect(job.Diagnose(), Kind::kDeadRank, Certainty::kLikely, {1, 2});
  diagnosis::Snapshot snapshot = job.Snapshot();
  snapshot.ends = witness;
  Expect(diagnosis::Diagnose(snapshot), Kind::kDeadRank, Certainty::kLikely, {2});
  snapshot.ends.front().others_lived = true;
  Expect(diagnosis::Diagnose(snapshot), Kind::kDeadRank, Certainty::kCertain, {2});
}

}  // namespace
}  // namespace ncclwatch::testing
