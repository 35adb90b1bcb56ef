// Last words: what they make of a death, of a stall, and of the order of things; and what they must not be taken for.
#include <gtest/gtest.h>

#include <csignal>

#include "core/diagnose.h"
#include "ncclwatch/format/sample.h"
#include "tests/unit/diagnosis/verdicts.h"

namespace ncclwatch::testing {
namespace {

using diagnosis::Certainty;
using diagnosis::Diagnosis;
using diagnosis::Kind;
using reader::FailedAllocation;
using reader::NcclError;

constexpr std::int32_t kSystemError = 2, kInternalError = 3, kInvalidArgument = 4, kRemoteError = 6;

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

bool Tells(const Diagnosis& diagnosis, const std::string& part) {
  for (const std::string& line : diagnosis.findings.at(0).evidence)
    if (line.find(part) != std::string::npos) return true;
  return false;
}

void Crash(Job* job, int rank, int signal, std::uint32_t flags = 0) {
  reader::BoxImage& box = job->Box(rank);
  box.words.catching = true;
  box.words.signals.push_back(
      {job->now_ns(),
       0x10,
       0x7ffd0000,
       signal,
       signal == SIGABRT ? -6 : 1,
       0,
       box.pid,
       flags,
       "train",
       {{0x7f00aeec, 0x8aeec, "/lib/x86_64-linux-gnu/libc.so.6"}, {0x401234, 0x1234, "/app/train"}}});
  if ((flags & format::kSignalHandled) != 0) return;
  box.state = format::ProcessState::kCrashing;
  box.last_words = {true, 0, signal, job->now_ns(), ""};
}

void Exits(Job* job, int rank, int status) {
  job->Box(rank).state = format::ProcessState::kExiting;
  job->Box(rank).last_words = {true, status, 0, job->now_ns(), ""};
  job->Pass(0.01);
  job->Die(rank, Job::Status(status));
}

void Raises(Job* job, int rank, format::Language language, const std::string& type, const std::string& message,
            const std::string& place = "") {
  job->Box(rank).words.exceptions.push_back({job->now_ns(), language, 1, type, message, place});
}

FailedAllocation& Fails(Job* job, int rank, std::uint64_t bytes = std::uint64_t{2} << 30) {
  std::vector<FailedAllocation>& failed = job->Box(rank).words.allocations;
  failed.push_back({job->now_ns(), 0, bytes, 300 << 20, std::uint64_t{80} << 30, 1, 2, rank, 1});
  return failed.back();
}

NcclError& Errs(Job* job, int rank, std::int32_t result, bool asynchronous = false) {
  std::vector<NcclError>& errors = job->Box(rank).words.errors;
  errors.push_back({job->now_ns(), ~std::uint64_t{0}, Function::ncclAllReduce, job->Entry(rank, kWorld).index, 0,
                    result, 1, asynchronous, "NCCL WARN something"});
  return errors.back();
}

TEST(LastWords, ACrashSaysWhere) {
  Job job = Running(3);
  job.Call({0, 1}, kWorld, AllReduce());
  Crash(&job, 2, SIGSEGV);
  job.Die(2, Job::Signal(SIGSEGV));
  const Diagnosis diagnosis = job.Diagnose();
  Expect(diagnosis, Kind::kDeadRank, Certainty::kCertain, {2});
  EXPECT_HAS(diagnosis.findings[0].summary, "died of SIGSEGV in train+0x1234");
  EXPECT_TRUE(Tells(diagnosis, "through a null pointer, at 0x10"));
  EXPECT_TRUE(Tells(diagnosis, "libc.so.6+0x8aeec < train+0x1234"));
  const auto& words = diagnosis.findings[0].culprit_details[0].last_words;
  ASSERT_TRUE(words && words->signal);
  EXPECT_EQ(words->signal->frames[1], "train+0x1234");
}

bool Advises(const Diagnosis& diagnosis, const std::string& part) {
  for (const std::string& line : diagnosis.findings.at(0).next_steps)
    if (line.find(part) != std::string::npos) return true;
  return false;
}

TEST(LastWords, ACrashThatIsNotUnwoundSaysSo) {
  for (const bool unwound : {false, true}) {
    Job job = Running(3);
    job.Call({0, 1}, kWorld, AllReduce());
    Crash(&job, 2, SIGABRT, format::kSignalSampled | (unwound ? format::kSignalUnwound : 0u));
    if (!unwound) job.Box(2).words.signals[0].frames.resize(1);
    job.Die(2, Job::Signal(SIGABRT));
    const Diagnosis diagnosis = job.Diagnose();
    Expect(diagnosis, Kind::kDeadRank, Certainty::kCertain, {2});
    EXPECT_EQ(Tells(diagnosis, "not unwound yet"), !unwound);
    EXPECT_HAS(diagnosis.findings[0].summary,
               unwound ? "died of SIGABRT in train+0x1234" : "died of SIGABRT in libc.so.6+0x8aeec");
  }
}

TEST(LastWords, TheNextStepIsWhereItEnded) {
  Job job = Running(2);
  Crash(&job, 1, SIGABRT);
  job.Die(1, Job::Signal(SIGABRT));
  EXPECT_TRUE(Advises(job.Diagnose(), "read the last lines of its standard error"));
  Job raised = Running(2);
  Raises(&raised, 1, format::Language::kPython, "ValueError", "batch is empty", "/app/train.py:41 in step");
  Exits(&raised, 1, 1);
  EXPECT_TRUE(Advises(raised.Diagnose(), "start at /app/train.py:41 in step"));
}

TEST(LastWords, FramesOfOursAreLeftOut) {
  Job job = Running(2);
  Crash(&job, 1, SIGABRT);
  std::vector<reader::Frame>& frames = job.Box(1).words.signals[0].frames;
  frames.insert(frames.begin() + 1, {0x7f000001, 0x1, "/opt/lib/libncclwatch.so"});
  job.Die(1, Job::Signal(SIGABRT));
  const Diagnosis diagnosis = job.Diagnose();
  EXPECT_HAS(diagnosis.findings[0].summary, "SIGABRT in train+0x1234");
  EXPECT_TRUE(Tells(diagnosis, "libc.so.6+0x8aeec < train+0x1234"));
}

TEST(LastWords, ACrashWithoutWordsIsAnOverflowMostLikely) {
  Job job = Running(2);
  job.Box(1).words.catching = true;
  job.Die(1, Job::Signal(SIGSEGV));
  EXPECT_TRUE(Tells(job.Diagnose(), "stack overflowed"));
  Job reported = Running(2);
  Crash(&reported, 1, SIGSEGV, format::kSignalOverflow);
  reported.Die(1, Job::Signal(SIGSEGV));
  EXPECT_HAS(reported.Diagnose().findings[0].summary, "a stack overflow in train+0x1234");
}

TEST(LastWords, AnUncaughtExceptionIsReportedByTheAbort) {
  Job job = Running(2);
  job.Call({0}, kWorld, AllReduce());
  Raises(&job, 1, format::Language::kCpp, "std::runtime_error", "batch is empty");
  Crash(&job, 1, SIGABRT);
  job.Die(1, Job::Signal(SIGABRT));
  const Diagnosis diagnosis = job.Diagnose();
  Expect(diagnosis, Kind::kDeadRank, Certainty::kCertain, {1});
  EXPECT_HAS(diagnosis.findings[0].summary, "SIGABRT in train+0x1234: uncaught std::runtime_error: batch is empty");
}

TEST(LastWords, APythonExceptionIsReportedWithItsLine) {
  Job job = Running(2);
  job.Call({0}, kWorld, AllReduce());
  Raises(&job, 1, format::Language::kPython, "ValueError", "batch is empty", "/app/train.py:41 in step");
  Exits(&job, 1, 1);
  const Diagnosis diagnosis = job.Diagnose();
  Expect(diagnosis, Kind::kDeadRank, Certainty::kCertain, {1});
  EXPECT_HAS(diagnosis.findings[0].summary,
             "exited with status 1: uncaught ValueError: batch is empty (train.py:41 in step)");
}

TEST(LastWords, AnExceptionOverAPeerIsNoCertainFault) {
  Job job(4);
  job.Done(Range(0, 4), kWorld, AllReduce());
  Raises(&job, 1, format::Language::kPython, "RuntimeError",
         "Rank 1 successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0.");
  Exits(&job, 1, 1);
  const Diagnosis diagnosis = job.Diagnose();
  ASSERT_FALSE(diagnosis.clean());
  EXPECT_EQ(diagnosis.findings.front().certainty, Certainty::kSuspected);
  EXPECT_HAS(diagnosis.findings.front().next_steps.front(), "the rank that its exception speaks of");
}

TEST(LastWords, RanksThatAMonitoredBarrierHasMissed) {
  Job job(4);
  job.Done(Range(0, 4), kWorld, AllReduce());
  Raises(&job, 0, format::Language::kPython, "RuntimeError",
         "[Rank 0]: Ranks 2, 3 failed to pass monitoredBarrier in 20000 ms", "/app/train.py:57 in main");
  Exits(&job, 0, 1);
  Expect(job.Diagnose(), Kind::kMissingParticipant, Certainty::kSuspected, {2, 3});
}

TEST(LastWords, ADataLoadersWorker) {
  Job job(2);
  Raises(&job, 1, format::Language::kPython, "RuntimeError",
         "DataLoader worker (pid 4711) is killed by signal: Killed. ", "/app/train.py:57 in main");
  Exits(&job, 1, 1);
  const Diagnosis diagnosis = job.Diagnose();
  Expect(diagnosis, Kind::kDeadRank, Certainty::kCertain, {1});
  EXPECT_EQ(diagnosis.findings.front().summary.find("train.py:57"), std::string::npos);
  EXPECT_TRUE(Tells(diagnosis, "that line is not the cause"));
}

TEST(LastWords, ASignalThatAHandlerTookLongAgoIsNotReportedOf) {
  Job job = Running(2);
  Crash(&job, 1, SIGSEGV, format::kSignalHandled);
  job.Pass(20);
  job.Die(1, Job::Status(3));
  EXPECT_FALSE(Tells(job.Diagnose(), "SIGSEGV"));
  Job soon = Running(2);
  Crash(&soon, 1, SIGSEGV, format::kSignalHandled);
  soon.Pass(0.1);
  soon.Die(1, Job::Status(3));
  EXPECT_TRUE(Tells(soon.Diagnose(), "a handler of its own caught SIGSEGV"));
}

TEST(LastWords, TheFirstToSpeakDiedFirst) {
  Job job = Running(3);
  Crash(&job, 2, SIGABRT);  // its core takes seconds to write
  job.Pass(0.3);
  Exits(&job, 1, 1);  // a consequence, seen gone before it
  job.Pass(2);
  job.Die(2, Job::Signal(SIGABRT));
  Expect(job.Diagnose(), Kind::kDeadRank, Certainty::kCertain, {2});
}

TEST(OutOfMemory, OfTheHost) {
  Job job = Running(3);
  job.Call({0, 1}, kWorld, AllReduce());
  job.Die(2, Job::Exit{SIGKILL, -1, true});
  Expect(job.Diagnose(), Kind::kOutOfMemory, Certainty::kCertain, {2});
}

TEST(OutOfMemory, OfTheHostSaysWhatItHad) {
  Job job = Running(2);
  job.Box(1).words.memory = {job.now_ns(), std::uint64_t{3} << 30, std::uint64_t{1} << 20};
  job.Pass(0.03);
  job.Die(1, Job::Exit{SIGKILL, -1, true});
  const Diagnosis diagnosis = job.Diagnose();
  EXPECT_TRUE(Tells(diagnosis, "it had 3.0 GiB resident, 30 ms before it was seen gone; its host had 1.0 MiB free"));
  EXPECT_TRUE(Tells(diagnosis, "the kernel has counted an out-of-memory kill"));
}

TEST(OutOfMemory, OfTheDeviceThatTheRankDiesOf) {
  Job job = Running(3);
  job.Call({0, 1}, kWorld, AllReduce());
  Fails(&job, 2);
  job.Pass(1.5);
  Exits(&job, 2, 1);
  const Diagnosis diagnosis = job.Diagnose();
  Expect(diagnosis, Kind::kOutOfMemory, Certainty::kCertain, {2});
  EXPECT_HAS(diagnosis.findings[0].summary, "could not get 2.0 GiB of memory on device 2");
  EXPECT_HAS(diagnosis.findings[0].summary, "300.0 MiB of 80.0 GiB were free");
  EXPECT_HAS(diagnosis.findings[0].summary, "exited with status 1");
  EXPECT_EQ(diagnosis.findings[0].began_at_ns % 1000, job.Diagnose().findings[0].began_at_ns % 1000);
  EXPECT_LT(diagnosis.findings[0].began_at_ns + 1'400'000'000, diagnosis.findings[0].detected_at_ns);
  const auto& words = diagnosis.findings[0].culprit_details[0].last_words;
  ASSERT_TRUE(words && words->allocation);
  EXPECT_EQ(words->allocation->bytes, std::uint64_t{2} << 30);
}

TEST(OutOfMemory, EvenIfItThenEndsWithStatusZero) {
  Job job = Running(2);
  Fails(&job, 1);
  job.Pass(0.2);
  Exits(&job, 1, 0);
  EXPECT_TRUE(job.Diagnose().healthy());  // nobody waits for it
  job.Call({0}, kWorld, AllReduce());
  Expect(job.Diagnose(), Kind::kOutOfMemory, Certainty::kCertain, {1});
}

TEST(OutOfMemory, ByItsException) {
  for (const auto& [language, type] :
       {std::pair{format::Language::kCpp, "std::bad_alloc"}, std::pair{format::Language::kCpp, "c10::OutOfMemoryError"},
        std::pair{format::Language::kPython, "MemoryError"},
        std::pair{format::Language::kPython, "torch.OutOfMemoryError"}}) {
    Job job = Running(2);
    Raises(&job, 1, language, type, "");
    Exits(&job, 1, 1);
    Expect(job.Diagnose(), Kind::kOutOfMemory, Certainty::kCertain, {1});
  }
}

TEST(OutOfMemory, ThatIsGotOverIsNone) {
  Job retried = Running(2);
  Fails(&retried, 1);
  retried.Pass(0.01);
  retried.Box(1).words.allocations[0].recovered_ns = retried.now_ns();
  retried.Pass(0.01);
  EXPECT_TRUE(retried.Diagnose().healthy());
  Exits(&retried, 1, 1);
  Expect(retried.Diagnose(), Kind::kDeadRank, Certainty::kCertain, {1});

  Job went_on = Running(2);
  Fails(&went_on, 1);
  went_on.Pass(0.01);
  went_on.Done({0, 1}, kWorld, AllReduce());
  Exits(&went_on, 1, 1);
  Expect(went_on.Diagnose(), Kind::kDeadRank, Certainty::kCertain, {1});
}

TEST(OutOfMemory, LongBeforeADeathHasNothingToDoWithItUnlessItIsNamed) {
  Job job = Running(2);
  Fails(&job, 1);
  job.Pass(40);
  Exits(&job, 1, 1);
  Expect(job.Diagnose(), Kind::kDeadRank, Certainty::kCertain, {1});
  Raises(&job, 1, format::Language::kPython, "RuntimeError", "CUDA error: out of memory");
  Expect(job.Diagnose(), Kind::kOutOfMemory, Certainty::kCertain, {1});
}

TEST(OutOfMemory, OfARankThatStopsMakingCalls) {
  Job job = Running(3);
  job.Call({0, 1}, kWorld, AllReduce());
  Fails(&job, 2);
  job.Pass(5);
  EXPECT_TRUE(job.Diagnose().healthy());
  job.Pass(6);
  const Diagnosis diagnosis = job.Diagnose();
  Expect(diagnosis, Kind::kOutOfMemory, Certainty::kSuspected, {2});
  EXPECT_HAS(diagnosis.findings[0].summary, "could not get 2.0 GiB");
  job.Pass(55);
  Expect(job.Diagnose(), Kind::kOutOfMemory, Certainty::kLikely, {2});
}

TEST(LibraryError, ThatARankDiesOf) {
  Job job = Running(3);
  job.Call({0, 1}, kWorld, AllReduce());
  Errs(&job, 2, kInternalError);
  job.Pass(0.3);
  Exits(&job, 2, 1);
  const Diagnosis diagnosis = job.Diagnose();
  Expect(diagnosis, Kind::kLibraryError, Certainty::kCertain, {2});
  EXPECT_HAS(diagnosis.findings[0].summary, "got internal_error from NCCL's AllReduce (NCCL WARN something)");
  EXPECT_HAS(diagnosis.findings[0].summary, "exited with status 1");
}

TEST(LibraryError, TheFirstInTimeIsTheCauseOfTheCascade) {
  Job job = Running(4);
  job.Call({0, 1, 3}, kWorld, AllReduce());
  Errs(&job, 2, kSystemError);
  job.Pass(0.05);
  Errs(&job, 1, kRemoteError, true);
  job.Pass(0.02);
  Exits(&job, 1, 1);  // quicker than the one whose error it was
  job.Pass(0.02);
  Exits(&job, 2, 1);
  const Diagnosis diagnosis = job.Diagnose();
  ASSERT_FALSE(diagnosis.healthy());
  Expect(diagnosis, Kind::kLibraryError, Certainty::kCertain, {2});
  ASSERT_EQ(diagnosis.findings.size(), 2u);
  EXPECT_EQ(diagnosis.findings[1].caused_by, 0u);
}

TEST(LibraryError, OfALivingRankThatOthersDiedOf) {
  Job job = Running(3);
  job.Call({0, 1}, kWorld, AllReduce());
  Errs(&job, 2, kInternalError);  // and sits in a handler
  job.Pass(0.2);
  Errs(&job, 0, kRemoteError, true);
  job.Pass(0.1);
  Exits(&job, 0, 1);
  const Diagnosis diagnosis = job.Diagnose();
  Expect(diagnosis, Kind::kLibraryError, Certainty::kLikely, {2});
  ASSERT_EQ(diagnosis.findings.size(), 2u);
  EXPECT_EQ(diagnosis.findings[1].kind, Kind::kLibraryError);
  EXPECT_EQ(diagnosis.findings[1].caused_by, 0u);
}

TEST(LibraryError, OfWhoLostAPeerIsAConsequence) {
  Job job = Running(3);
  job.Call({0, 1}, kWorld, AllReduce());
  job.Silence(2);
  job.Pass(0.002);
  Errs(&job, 1, kRemoteError);  // its peer has just been killed
  job.Pass(0.001);
  Exits(&job, 1, 1);
  job.Pass(0.01);
  job.Die(2, Job::Signal(SIGKILL));  // seen only now
  Expect(job.Diagnose(), Kind::kDeadRank, Certainty::kCertain, {2});
}

TEST(LibraryError, AfterAnAbortOfItsOwnIsNone) {
  Job job = Running(2);
  job.Other(1, Function::ncclCommAbort, kWorld);
  job.Pass(0.01);
  Errs(&job, 1, kRemoteError);
  job.Pass(0.1);
  Exits(&job, 1, 1);
  Expect(job.Diagnose(), Kind::kDeadRank, Certainty::kCertain, {1});
}

TEST(LibraryError, ThatIsGotOverIsNone) {
  Job job = Running(2);
  Errs(&job, 1, kInvalidArgument);
  job.Pass(0.01);
  job.Done({0, 1}, kWorld, AllReduce());
  job.Pass(0.1);
  EXPECT_TRUE(job.Diagnose().healthy());
  Exits(&job, 1, 1);
  Expect(job.Diagnose(), Kind::kDeadRank, Certainty::kCertain, {1});
}

TEST(LibraryError, AsynchronousWhileAllAreInTheCall) {
  Job job = Running(3);
  job.Call({0, 1, 2}, kWorld, AllReduce());
  Errs(&job, 1, kInternalError, true);
  job.Pass(5);
  EXPECT_TRUE(job.Diagnose().healthy());
  job.Pass(6);
  const Diagnosis diagnosis = job.Diagnose();
  Expect(diagnosis, Kind::kLibraryError, Certainty::kSuspected, {1});
  EXPECT_HAS(diagnosis.findings[0].summary, "asynchronously");
}

TEST(LibraryError, OfARankThatOthersWaitFor) {
  Job job = Running(3);
  job.Call({0, 1}, kWorld, AllReduce());
  Errs(&job, 2, kSystemError, true);
  job.Pass(11);
  const Diagnosis diagnosis = job.Diagnose();
  Expect(diagnosis, Kind::kLibraryError, Certainty::kSuspected, {2});
  EXPECT_HAS(diagnosis.findings[0].summary, "system_error");
}

TEST(LibraryError, AWholeJobThatIsEndedPolitelyIsNoFinding) {
  Job job = Running(3);
  for (int rank : {0, 1, 2}) {
    Errs(&job, rank, kRemoteError);
    job.Die(rank, Job::Signal(SIGTERM));
  }
  EXPECT_TRUE(job.Diagnose().healthy());
}

TEST(LastWords, WhatWasSaidAfterTheVerdictIsNotReported) {
  Job job = Running(2);
  job.Call({0}, kWorld, AllReduce());
  job.Die(1, Job::Signal(SIGKILL));
  diagnosis::Snapshot snapshot = job.Snapshot();
  snapshot.boxes[0].words.errors.push_back(
      {job.now_ns() + 1000, 0, Function::ncclAllReduce, 0, 0, kRemoteError, 1, true, "later"});
  Expect(diagnosis::Diagnose(snapshot), Kind::kDeadRank, Certainty::kCertain, {1});
}

}  // namespace
}  // namespace ncclwatch::testing
