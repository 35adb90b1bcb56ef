// device_stall and transport_stall by start marks: whose GPU has come to a call that all have launched, and whose not.
#include <gtest/gtest.h>

#include "core/diagnose.h"
#include "core/report/render.h"
#include "core/view/as_of.h"
#include "tests/unit/diagnosis/verdicts.h"

namespace ncclwatch::testing {
namespace {

using diagnosis::CallState;
using diagnosis::Certainty;
using diagnosis::Diagnosis;
using diagnosis::Kind;

Job Marked(int ranks) {
  Job job(ranks);
  job.Starts();
  for (int i = 0; i < 3; ++i) {
    job.Pass(0.05);
    job.Done(Range(0, ranks), kWorld, AllReduce());
  }
  job.At(1);
  return job;
}

Job Stuck() {
  Job job = Marked(4);
  job.Call({0, 1, 2, 3}, kWorld, AllReduce());
  job.Begin({0, 1, 3}, kWorld);
  return job;
}

bool Says(const std::vector<std::string>& sentences, const std::string& part) {
  for (const std::string& sentence : sentences)
    if (sentence.find(part) != std::string::npos) return true;
  return false;
}

TEST(Device, TheRankWhoseGpuHasNotComeToIt) {
  Job job = Stuck();
  EXPECT_TRUE(job.DiagnoseAt(10.9).healthy());
  Expect(job.DiagnoseAt(11.1), Kind::kDeviceStall, Certainty::kSuspected, {2});
  const Diagnosis diagnosis = job.DiagnoseAt(100000);
  Expect(diagnosis, Kind::kDeviceStall, Certainty::kLikely, {2});
  ASSERT_EQ(diagnosis.findings.size(), 1u) << diagnosis::ToText(diagnosis);
  const diagnosis::Finding& finding = diagnosis.findings[0];
  EXPECT_EQ(finding.victims, (std::vector<int>{0, 1, 3}));
  EXPECT_EQ(finding.position, 3u);
  ASSERT_EQ(finding.calls.size(), 2u);
  EXPECT_EQ(finding.calls[0].state, CallState::kStarted);
  EXPECT_EQ(finding.calls[0].ranks, (std::vector<int>{0, 1, 3}));
  EXPECT_EQ(finding.calls[1].state, CallState::kReturned);
  EXPECT_TRUE(Says(finding.evidence, "at position 2")) << diagnosis::ToText(diagnosis);
}

TEST(Device, NothingOnceItMovesOn) {
  Job job = Stuck();
  EXPECT_FALSE(job.DiagnoseAt(30).healthy());
  job.Finish({0, 1, 2, 3}, kWorld);
  EXPECT_TRUE(job.DiagnoseAt(30).healthy());
}

TEST(Device, SeveralCulprits) {
  Job job = Marked(4);
  job.Call({0, 1, 2, 3}, kWorld, AllReduce());
  job.Begin({0, 3}, kWorld);
  Expect(job.DiagnoseAt(100), Kind::kDeviceStall, Certainty::kLikely, {1, 2});
}

TEST(Device, AllHaveBegunAndNoneEnds) {
  Job job = Marked(4);
  job.Call({0, 1, 2, 3}, kWorld, AllReduce());
  job.Begin({0, 1, 2, 3}, kWorld);
  const Diagnosis diagnosis = job.DiagnoseAt(100);
  Expect(diagnosis, Kind::kTransportStall, Certainty::kLikely, {});
  EXPECT_NE(diagnosis.findings[0].summary.find("have begun it"), std::string::npos);
  EXPECT_FALSE(Says(diagnosis.findings[0].next_steps, "NCCLWATCH_GPU=both"));
  ASSERT_EQ(diagnosis.findings[0].calls.size(), 1u);
  EXPECT_EQ(diagnosis.findings[0].calls[0].state, CallState::kStarted);
}

TEST(Device, EndMarksAloneAccuseNobody) {
  Job job = Running(4);
  job.Call({0, 1, 2, 3}, kWorld, AllReduce());
  const Diagnosis diagnosis = job.DiagnoseAt(100);
  Expect(diagnosis, Kind::kTransportStall, Certainty::kLikely, {});
  EXPECT_TRUE(Says(diagnosis.findings[0].next_steps, "NCCLWATCH_GPU=both"));
  EXPECT_EQ(diagnosis.findings[0].calls.at(0).state, CallState::kReturned);
}

// Of a rank without start marks it is not known whether it has begun.
TEST(Device, WhoWritesNoStartMarksIsNotAccused) {
  Job job(4);
  job.Starts();
  job.Box(2).gpu_marks = format::GpuMarks::kOn;
  job.Done({0, 1, 2, 3}, kWorld, AllReduce());
  job.At(1);
  job.Call({0, 1, 2, 3}, kWorld, AllReduce());
  job.Begin({0, 1, 3}, kWorld);
  Diagnosis diagnosis = job.DiagnoseAt(100);
  Expect(diagnosis, Kind::kTransportStall, Certainty::kLikely, {});
  EXPECT_TRUE(Says(diagnosis.notes, "rank 2: no start marks"));
  Job other = Marked(4);
  other.Box(1).gpu_marks = format::GpuMarks::kOn;
  other.Call({0, 1, 2, 3}, kWorld, AllReduce());
  other.Begin({0}, kWorld);
  Expect(other.DiagnoseAt(100), Kind::kDeviceStall, Certainty::kLikely, {2, 3});
}

TEST(Device, WhereNobodyIsKnownToHaveBegunTheUnknownKeepItSuspected) {
  Job job = Marked(4);
  job.Box(0).gpu_marks = format::GpuMarks::kOn;
  job.Call({0, 1, 2, 3}, kWorld, AllReduce());
  Expect(job.DiagnoseAt(1000), Kind::kDeviceStall, Certainty::kSuspected, {1, 2, 3});
}

TEST(Device, ACallBehindAnotherUnfinishedOneIsNotHeldUpByOtherWork) {
  Job job = Marked(4);
  const int pair = job.Comm({2, 3});
  job.Call({2, 3}, pair, AllReduce());  // on the same stream, and stuck itself
  job.Begin({2, 3}, pair);
  job.Call({0, 1, 2, 3}, kWorld, AllReduce());
  job.Begin({0, 1}, kWorld);
  const Diagnosis diagnosis = job.DiagnoseAt(100);
  ASSERT_EQ(diagnosis.findings.size(), 1u) << diagnosis::ToText(diagnosis);
  Expect(diagnosis, Kind::kTransportStall, Certainty::kLikely, {});
  EXPECT_EQ(diagnosis.findings[0].communicator->size, 2u);
}

// ncclWaitSignal may wait for another rank; no mark says whether it still does.
TEST(Device, WorkOfNcclsThatIsNotMarkedMayBeWhatHoldsItUp) {
  Job job = Marked(4);
  job.Other(2, Function::ncclWaitSignal, kWorld);
  job.Call({0, 1, 2, 3}, kWorld, AllReduce());
  job.Begin({0, 1, 3}, kWorld);
  Expect(job.DiagnoseAt(100), Kind::kTransportStall, Certainty::kLikely, {});
  Job other = Stuck();
  other.Other(0, Function::ncclWaitSignal, kWorld);  // whoever else does that is not accused
  Expect(other.DiagnoseAt(100), Kind::kDeviceStall, Certainty::kLikely, {2});
}

TEST(Device, ReplayedGraphsKeepItSuspected) {
  Job job = Marked(4);
  job.Box(2).calls.front().flags |= format::kCaptured;
  job.Call({0, 1, 2, 3}, kWorld, AllReduce());
  job.Begin({0, 1, 3}, kWorld);
  Expect(job.DiagnoseAt(1000), Kind::kDeviceStall, Certainty::kSuspected, {2});
}

// Its own stream has not come to it, whatever another one has come to since.
TEST(Device, EachStreamIsLookedAtByItself) {
  Job job = Marked(2);
  Spec aside = AllReduce();
  aside.stream = 0x21;
  job.Call({0, 1}, kWorld, AllReduce());
  job.Begin({0}, kWorld);
  job.Call({0, 1}, kWorld, aside);
  reader::Communicator& entry = job.Entry(1, kWorld);
  entry.starts[aside.stream % format::kStarts] = job.Box(1).calls.back().start;
  Expect(job.DiagnoseAt(100), Kind::kDeviceStall, Certainty::kLikely, {1});
}

TEST(Device, AMessageThatOneGpuHasNotComeTo) {
  Job job = Marked(3);
  job.Message(0, kWorld, Function::ncclSend, 1);
  job.Message(1, kWorld, Function::ncclRecv, 0);
  job.Begin({1}, kWorld);
  Expect(job.DiagnoseAt(100), Kind::kDeviceStall, Certainty::kLikely, {0});
}

// An abort lets the stream go on: what is judged is the instant before.
TEST(Device, AnAbortDoesNotUndoIt) {
  Job job = Stuck();
  job.At(50);
  const std::int64_t before = job.now_ns();
  job.Pass(1);
  job.Abort({0, 1, 2, 3}, kWorld);
  job.Pass(1);
  const diagnosis::Snapshot past = diagnosis::AsOf(job.Snapshot(), before);
  Expect(diagnosis::Diagnose(past), Kind::kDeviceStall, Certainty::kSuspected, {2});
}

}  // namespace
}  // namespace ncclwatch::testing
