// dead_rank and early_exit: who died first, who only followed, and ends that are none.
#include <gtest/gtest.h>

#include <csignal>

#include "tests/unit/diagnosis/verdicts.h"

namespace ncclwatch::testing {
namespace {

using diagnosis::Certainty;
using diagnosis::Diagnosis;
using diagnosis::Kind;

TEST(Death, KilledIsCertainAtOnceWaitingOrNot) {
  Job job = Running(4);
  job.Die(2, Job::Signal(SIGKILL));
  Expect(job.Diagnose(), Kind::kDeadRank, Certainty::kCertain, {2});
  job.Call({0, 1, 3}, kWorld, AllReduce());
  const Diagnosis diagnosis = job.Diagnose();
  Expect(diagnosis, Kind::kDeadRank, Certainty::kCertain, {2});
  EXPECT_EQ(diagnosis.findings[0].victims, (std::vector<int>{0, 1, 3}));
  EXPECT_EQ(diagnosis.findings[0].position, 3u);
  EXPECT_EQ(diagnosis.findings[0].culprit_details[0].exit->signal, SIGKILL);
}

// What was waited in later may finish after the verdict, where the dead had done its part: the verdict would then
// differ from the one that is made afterwards.
TEST(Death, OfTwoEqualWaitsTheFirstIsReported) {
  Job job = Running(4);
  const int other = job.Comm({0, 1, 2, 3});
  for (const int first : {Job::kWorld, other}) {
    Job one = job;
    one.Call({0, 1, 3}, first, AllReduce());
    one.Pass(0.01);
    one.Call({0, 1, 3}, first == other ? Job::kWorld : other, AllReduce());
    one.Die(2, Job::Signal(SIGKILL));
    const Diagnosis diagnosis = one.Diagnose();
    Expect(diagnosis, Kind::kDeadRank, Certainty::kCertain, {2});
    EXPECT_EQ(diagnosis.findings[0].communicator->id, one.Entry(0, first).id);
  }
}

TEST(Death, AlsoOfTheLeader) {
  Job job = Running(4);
  job.Call({1, 2, 3}, kWorld, AllReduce());
  job.Die(0, Job::Signal(SIGSEGV));
  Expect(job.Diagnose(), Kind::kDeadRank, Certainty::kCertain, {0});
}

TEST(Death, AnExceptionIsAStatusOfOne) {
  Job job = Running(4);
  job.Call({0, 2, 3}, kWorld, AllReduce());
  job.Die(1, Job::Status(1));
  Expect(job.Diagnose(), Kind::kDeadRank, Certainty::kCertain, {1});
}

TEST(Death, TheFirstOneIsTheCauseTheOthersFollow) {
  Job job = Running(4);
  job.Call({0, 1, 3}, kWorld, AllReduce());
  job.Die(2, Job::Signal(SIGKILL));
  job.Pass(0.1);
  job.Die(1, Job::Signal(SIGTERM));
  job.Die(3, Job::Signal(SIGTERM));
  const Diagnosis diagnosis = job.Diagnose();
  Expect(diagnosis, Kind::kDeadRank, Certainty::kCertain, {2});
  EXPECT_EQ(diagnosis.findings.size(), 1u);
}

TEST(Death, ACrashComesBeforeTheKillsOfTheLauncher) {
  Job job = Running(3);
  job.Silence(2);  // its last heartbeat
  job.Pass(0.02);
  job.Die(1, Job::Signal(SIGKILL));  // seen first, killed within 5 ms of the crash
  job.Pass(0.003);
  job.Die(2, Job::Signal(SIGABRT));
  Expect(job.Diagnose(), Kind::kDeadRank, Certainty::kCertain, {2});
}

TEST(Death, UnknownMannerIsCertainOnlyIfSomebodyWaits) {
  Job job = Running(4);
  job.Die(2, Job::Unknown());
  EXPECT_TRUE(job.Diagnose().healthy());  // the whole job may be about to be ended
  job.Pass(0.6);
  Expect(job.Diagnose(), Kind::kDeadRank, Certainty::kLikely, {2});
  job.Call({0}, kWorld, AllReduce());
  Expect(job.Diagnose(), Kind::kDeadRank, Certainty::kCertain, {2});
}

TEST(Death, UnknownMannerOfSeveralAtOnceIsNeverCertain) {
  Job job = Running(4);
  job.Call({0}, kWorld, AllReduce());
  job.Die(2, Job::Unknown());
  job.Pass(0.1);
  job.Die(3, Job::Unknown());
  job.Pass(0.45);
  EXPECT_TRUE(job.Diagnose().healthy());
  job.Pass(0.1);
  Expect(job.Diagnose(), Kind::kDeadRank, Certainty::kLikely, {2});
}

TEST(Death, NeverCertainWhileLockOrProcessIsStillThere) {
  Job job = Running(2);
  job.Call({0}, kWorld, AllReduce());
  job.Observe(1, format::Observed::kHidden);
  job.Silence(1);
  job.Pass(300);
  Expect(job.Diagnose(), Kind::kDeadRank, Certainty::kLikely, {1});
  Job dumping = Running(2);
  dumping.Call({0}, kWorld, AllReduce());
  dumping.Observe(1, format::Observed::kDumping);
  Expect(dumping.Diagnose(), Kind::kDeadRank, Certainty::kLikely, {1});
}

TEST(Death, EndedFromOutsideIsNoFinding) {
  Job job = Running(4);
  job.Call({0, 1}, kWorld, AllReduce());
  for (int rank : {3, 1, 2, 0}) job.Die(rank, Job::Signal(SIGTERM));
  EXPECT_TRUE(job.Diagnose().healthy());
  job.Pass(5);
  EXPECT_TRUE(job.Diagnose().healthy());
}

TEST(Death, APoliteSignalToOneRankAloneIsLikely) {
  Job job = Running(4);
  job.Die(2, Job::Signal(SIGTERM));
  job.Pass(0.5);
  job.Call({0, 1, 3}, kWorld, AllReduce());
  EXPECT_TRUE(job.Diagnose().healthy());  // the others may follow
  job.Pass(2);
  Expect(job.Diagnose(), Kind::kDeadRank, Certainty::kLikely, {2});
}

TEST(Death, WholeJobGoneWithoutATraceIsNoFinding) {
  Job job = Running(3);
  for (int rank : {2, 1, 0}) job.Die(rank, Job::Unknown());
  EXPECT_TRUE(job.Diagnose().healthy());
}

TEST(EarlyExit, CertainIfSomebodyIsInACallThatItNeverMade) {
  Job job = Running(4);
  job.Die(2, Job::Status(0));
  EXPECT_TRUE(job.Diagnose().healthy());
  job.Pass(0.2);
  job.Call({0, 1, 3}, kWorld, AllReduce());
  Expect(job.Diagnose(), Kind::kEarlyExit, Certainty::kCertain, {2});
}

TEST(EarlyExit, SaidByItselfInItsLastWords) {
  Job job = Running(2);
  job.Box(1).state = format::ProcessState::kExiting;
  job.Box(1).last_words = {true, 0, 0, job.now_ns(), ""};
  job.Die(1, Job::Unknown());
  EXPECT_TRUE(job.Diagnose().healthy());
  job.Call({0}, kWorld, AllReduce());
  Expect(job.Diagnose(), Kind::kEarlyExit, Certainty::kCertain, {1});
}

TEST(EarlyExit, WithoutMarksItIsNotKnownThatTheOthersWait) {
  Job job = Running(2);
  job.Marks(false);
  job.Die(1, Job::Status(0));
  job.Call({0}, kWorld, AllReduce());
  Expect(job.Diagnose(), Kind::kEarlyExit, Certainty::kLikely, {1});
}

TEST(EarlyExit, AllThatLeftAreOneFinding) {
  Job job = Running(4);
  for (int rank : {1, 2, 3}) job.Die(rank, Job::Status(0));
  job.Pass(1);
  job.Call({0}, kWorld, AllReduce());
  const Diagnosis diagnosis = job.Diagnose();
  Expect(diagnosis, Kind::kEarlyExit, Certainty::kCertain, {1, 2, 3});
  EXPECT_EQ(diagnosis.findings.size(), 1u);
}

TEST(EarlyExit, WhoMadeAllCallsThatOthersWaitInIsNoCulprit) {
  Job job = Running(3);
  job.Call({0, 1}, kWorld, AllReduce());
  job.Call({2}, kWorld, AllReduce());
  job.Finish({2}, kWorld);
  job.Die(2, Job::Status(0));
  EXPECT_TRUE(job.Diagnose().healthy());
}

TEST(Death, AfterGoodbyeIsNoFinding) {
  for (const auto state : {format::CommunicatorState::kDestroyed, format::CommunicatorState::kFinalizing}) {
    Job job = Running(2);
    job.State({1}, kWorld, state);
    job.Die(1, Job::Status(1));
    EXPECT_TRUE(job.Diagnose().healthy());
  }
}

TEST(Death, SurvivorsThatRecoverWithdrawIt) {
  Job job = Running(3);
  job.Call({0, 1}, kWorld, AllReduce());
  job.Die(2, Job::Signal(SIGKILL));
  EXPECT_FALSE(job.Diagnose().healthy());
  job.Pass(0.1);
  job.State({0}, kWorld, format::CommunicatorState::kRevoked);
  EXPECT_TRUE(job.Diagnose().healthy());
  Job shrinking = Running(3);
  shrinking.Die(2, Job::Signal(SIGKILL));
  shrinking.Other(0, Function::ncclCommShrink, kWorld);
  EXPECT_TRUE(shrinking.Diagnose().healthy());
}

TEST(Death, AOneRankCommunicatorConcernsNobody) {
  Job job(2, false);
  job.Comm({1});
  job.Die(1, Job::Signal(SIGKILL));
  EXPECT_TRUE(job.Diagnose().healthy());
}

TEST(Death, AStallThatWasThereBeforeIsTheCause) {
  Job job = Running(4);
  job.Call({0, 1, 3}, kWorld, AllReduce());  // rank 2 does not come
  job.Pass(70);
  job.Die(0, Job::Signal(SIGABRT));  // a framework's own timeout
  const Diagnosis diagnosis = job.Diagnose();
  ASSERT_EQ(diagnosis.findings.size(), 2u);
  Expect(diagnosis, Kind::kMissingParticipant, Certainty::kLikely, {2});
  EXPECT_EQ(diagnosis.findings[1].kind, Kind::kDeadRank);
  EXPECT_EQ(diagnosis.findings[1].caused_by, 0u);
}

TEST(Death, OutOfMemoryIsAKindOfItsOwn) {
  Job job = Running(2);
  job.Die(1, Job::Exit{SIGKILL, -1, true});
  const Diagnosis diagnosis = job.Diagnose();
  Expect(diagnosis, Kind::kOutOfMemory, Certainty::kCertain, {1});
  EXPECT_NE(diagnosis.findings[0].summary.find("memory"), std::string::npos);
}

TEST(Death, AReusedPidIsAnotherProcess) {
  Job job = Running(2);
  job.Observe(1, format::Observed::kGone);
  job.Box(0).observations.back().start_time += 1;
  EXPECT_TRUE(job.Diagnose().healthy());
}

}  // namespace
}  // namespace ncclwatch::testing
