// Who is wrong where as many ranks say the one as the other, steps in findings, and step_mismatch.
#include "tests/unit/diagnosis/verdicts.h"

namespace ncclwatch::testing {
namespace {

using diagnosis::Certainty;
using diagnosis::Diagnosis;
using diagnosis::Finding;
using diagnosis::Kind;

void ExpectEvidence(const Diagnosis& diagnosis, const std::string& text) {
  const std::vector<std::string>& why = diagnosis.findings.front().evidence;
  EXPECT_TRUE(std::any_of(why.begin(), why.end(), [&](const std::string& line) {
    return line.find(text) != std::string::npos;
  })) << text;
}

// Two sizes of gradients and a norm.
void Step(Job* job, const std::vector<int>& ranks) {
  job->Pass(0.01);
  for (const std::uint64_t count : {4096, 9000, 1}) job->Done(ranks, kWorld, AllReduce(count));
}

Job Trained(int ranks, int steps = 20) {
  Job job(ranks);
  for (int i = 0; i < steps; ++i) Step(&job, Range(0, ranks));
  job.Pass(0.01);
  return job;
}

TEST(Departure, InATieTheOneThatGoesOnAsBeforeIsBelievedAndNeverCertainly) {
  Job job = Trained(2);
  job.Call({0}, kWorld, AllReduce(4096));
  job.Call({1}, kWorld, AllGather());
  const Diagnosis diagnosis = job.Diagnose();
  Expect(diagnosis, Kind::kOrderMismatch, Certainty::kLikely, {1});
  const Finding& finding = diagnosis.findings.front();
  EXPECT_NE(finding.summary.find("only rank 0 goes on"), std::string::npos) << finding.summary;
  ASSERT_TRUE(finding.step);
  EXPECT_EQ(finding.step->rank, 0);
  EXPECT_EQ(finding.step->number, 20u);
  EXPECT_TRUE(finding.step->exact);
  EXPECT_EQ(finding.step->call, 1u);
  EXPECT_EQ(finding.step->calls, 3u);
}

TEST(Departure, WhatHasHappenedThereBeforeAccusesNobody) {
  Job job = Trained(2);
  job.Done({0, 1}, kWorld, AllGather());
  for (int i = 0; i < 20; ++i) Step(&job, {0, 1});
  job.Call({0}, kWorld, AllReduce(4096));
  job.Call({1}, kWorld, AllGather());
  Expect(job.Diagnose(), Kind::kOrderMismatch, Certainty::kCertain, {0, 1});
}

TEST(Departure, WithoutRepetitionBothSidesAreNamed) {
  Job job = Trained(2, 2);
  job.Call({0}, kWorld, AllReduce(4096));
  job.Call({1}, kWorld, AllGather());
  Expect(job.Diagnose(), Kind::kOrderMismatch, Certainty::kCertain, {0, 1});
  EXPECT_FALSE(job.Diagnose().findings.front().step);
}

TEST(Departure, TheMajorityIsRightEvenWhereItDoesSomethingNew) {
  Job job = Trained(4);
  job.Call({0, 1, 2}, kWorld, AllGather());
  job.Call({3}, kWorld, AllReduce(4096));
  const Diagnosis diagnosis = job.Diagnose();
  Expect(diagnosis, Kind::kOrderMismatch, Certainty::kCertain, {3});
  ExpectEvidence(diagnosis, "most ranks make a call here that is new to all; rank 3 does not make it");
}

TEST(Departure, OneCallTooManyIsReportedWhereTheCallsAfterItProveIt) {
  Job job = Trained(4);
  job.Call({2}, kWorld, AllReduce(7));
  for (const std::uint64_t count : {4096, 9000, 1}) job.Call({0, 1, 2, 3}, kWorld, AllReduce(count));
  job.Call({0, 1, 3}, kWorld, AllReduce(4096));
  const Diagnosis diagnosis = job.Diagnose();
  Expect(diagnosis, Kind::kArgumentMismatch, Certainty::kCertain, {2});
  EXPECT_NE(diagnosis.findings.front().summary.find("rank 2 made one extra AllReduce of 7 float32 (sum) there"),
            std::string::npos)
      << diagnosis.findings.front().summary;
}

TEST(Departure, ALeftOutCallIsReported) {
  Job job = Trained(4);
  job.Call({0, 1, 3}, kWorld, AllReduce(4096));
  for (const std::uint64_t count : {9000, 1, 4096}) job.Call({0, 1, 2, 3}, kWorld, AllReduce(count));
  const Diagnosis diagnosis = job.Diagnose();
  Expect(diagnosis, Kind::kArgumentMismatch, Certainty::kCertain, {2});
  EXPECT_NE(diagnosis.findings.front().summary.find("rank 2 left out AllReduce of 4096 float32 (sum)"),
            std::string::npos)
      << diagnosis.findings.front().summary;
}

Spec From(std::uint64_t site, Spec call) {
  call.site = site;
  return call;
}

// Three equal gradients from three places, and a norm; `without`: the place whose call is not made, 0 none.
void RunOfEqualCalls(Job* job, const std::vector<int>& ranks, std::uint64_t without = 0, bool one_place = false) {
  for (const std::uint64_t site : {11ul, 12ul, 13ul})
    if (site != without) job->Done(ranks, kWorld, From(one_place ? 11 : site, AllReduce(4096)));
  job->Call(ranks, kWorld, From(14, AllReduce(1)));
}

Diagnosis WithoutOneOfRun(bool one_place) {
  Job job(4);
  for (int i = 0; i < 20; ++i, job.Pass(0.01)) RunOfEqualCalls(&job, Range(0, 4), 0, one_place);
  for (int i = 0; i < 2; ++i) {
    RunOfEqualCalls(&job, {0, 1, 3}, 0, one_place);
    RunOfEqualCalls(&job, {2}, i == 0 ? 12 : 0, one_place);
  }
  return job.Diagnose();
}

TEST(Departure, OfARunOfEqualCallsAnyMayHaveBeenLeftOut) {
  const Diagnosis diagnosis = WithoutOneOfRun(/*one_place=*/true);
  Expect(diagnosis, Kind::kArgumentMismatch, Certainty::kCertain, {2});
  ExpectEvidence(diagnosis,
                 "collectives 80 to 82 are equal calls, so it may have been any of 80 to 82: from collective "
                 "80 on data of different calls may have been combined, without an error");
  EXPECT_NE(diagnosis.findings.front().summary.find("rank 2 left out AllReduce of 4096 float32 (sum), one of the "
                                                    "collectives 80 to 82"),
            std::string::npos)
      << diagnosis.findings.front().summary;
}

TEST(Departure, ThePlacesOfTheCallsTellWhichOfARunWasLeftOut) {
  const Diagnosis diagnosis = WithoutOneOfRun(/*one_place=*/false);
  Expect(diagnosis, Kind::kArgumentMismatch, Certainty::kCertain, {2});
  ExpectEvidence(diagnosis, "collectives 81 to 82 are equal calls; the places of the calls show that it was 81");
}

TEST(Departure, ACallThatIsMadeElsewhereInTheStepIsNotAWrongArgument) {
  Job job = Trained(4);
  job.Call({0, 1, 3}, kWorld, AllReduce(4096));
  job.Call({2}, kWorld, AllReduce(9000));
  const Diagnosis diagnosis = job.Diagnose();
  Expect(diagnosis, Kind::kArgumentMismatch, Certainty::kCertain, {2});
  ExpectEvidence(diagnosis, "most likely these are two calls of the program");
  EXPECT_EQ(diagnosis.findings.front().next_steps.front().find("bucket"), std::string::npos);
}

TEST(Departure, ACountThatNoCallHadIsAWrongArgument) {
  Job job = Trained(4);
  job.Call({0, 1, 3}, kWorld, AllReduce(4096));
  job.Call({2}, kWorld, AllReduce(4097));
  const Diagnosis diagnosis = job.Diagnose();
  Expect(diagnosis, Kind::kArgumentMismatch, Certainty::kCertain, {2});
  EXPECT_NE(diagnosis.findings.front().next_steps.front().find("bucket or batch size"), std::string::npos);
}

// Two ranks, whose calls are all one: it may be a layer of a first step, and a habit of steps is not known.
TEST(Departure, OfTwoTheOneThatCallsAsAlwaysFromThatPlaceIsBelieved) {
  Job job(2);
  for (int i = 0; i < 8; ++i, job.Pass(0.01)) job.Done({0, 1}, kWorld, From(11, AllReduce(512)));
  job.Call({0}, kWorld, From(11, AllReduce(448)));
  job.Call({1}, kWorld, From(11, AllReduce(512)));
  const Diagnosis diagnosis = job.Diagnose();
  Expect(diagnosis, Kind::kArgumentMismatch, Certainty::kLikely, {0});
  ExpectEvidence(diagnosis, "from this place all have called AllReduce of 512 float32 (sum) each time before");
}

TEST(Departure, OfTwoThatCallFromAPlaceWithManyCallsNeitherIsBelieved) {
  Job job(2);
  for (int i = 0; i < 8; ++i, job.Pass(0.01)) job.Done({0, 1}, kWorld, From(11, AllReduce(i % 2 == 0 ? 512 : 64)));
  job.Call({0}, kWorld, From(11, AllReduce(448)));
  job.Call({1}, kWorld, From(11, AllReduce(9)));
  Expect(job.Diagnose(), Kind::kArgumentMismatch, Certainty::kCertain, {0, 1});
}

// Tensor parallel pairs within a job of four.
struct Pairs {
  Job job{4};
  int one, other;

  Pairs() : one(job.Comm({0, 1}, "tensor", kWorld)), other(job.Comm({2, 3}, "tensor", kWorld)) {
    for (int i = 0; i < 10; ++i) {
      job.Pass(0.05);
      Tensor();
      for (const std::uint64_t count : {60000, 1}) job.Done(Range(0, 4), kWorld, AllReduce(count));
    }
    job.Pass(0.05);
  }
  void Tensor() {
    for (const std::uint64_t count : {4096, 8192}) {
      job.Done({0, 1}, one, AllReduce(count));
      job.Done({2, 3}, other, AllReduce(count));
    }
  }
};

TEST(StepMismatch, ARankThatHasPassedOverACallOfItsSteps) {
  Pairs pairs;
  Job& job = pairs.job;
  for (const std::uint64_t count : {4096, 8192}) job.Done({2, 3}, pairs.other, AllReduce(count));
  job.Done({0, 1}, pairs.one, AllReduce(4096));
  job.Call({0}, pairs.one, AllReduce(8192));
  for (const std::uint64_t count : {60000, 1}) job.Call(Range(0, 4), kWorld, AllReduce(count));
  job.Pass(12);
  const Diagnosis diagnosis = job.Diagnose();
  Expect(diagnosis, Kind::kStepMismatch, Certainty::kSuspected, {1});
  const Finding& finding = diagnosis.findings.front();
  EXPECT_NE(finding.summary.find("Rank 1 left out AllReduce of 8192"), std::string::npos) << finding.summary;
  ASSERT_TRUE(finding.step);
  EXPECT_EQ(finding.step->number, 10u);
  EXPECT_EQ(finding.step->call, 2u);
}

// The first of two equal calls and the second look alike to all but the program.
TEST(StepMismatch, OfARunOfEqualCallsAnyMayHaveBeenLeftOut) {
  Job job(4);
  const int pair = job.Comm({0, 1}, "tensor", kWorld);
  for (int i = 0; i < 10; ++i, job.Pass(0.05)) {
    for (int equal = 0; equal < 2; ++equal) job.Done({0, 1}, pair, AllReduce(8192));
    for (const std::uint64_t count : {60000, 1}) job.Done(Range(0, 4), kWorld, AllReduce(count));
  }
  job.Done({0, 1}, pair, AllReduce(8192));
  job.Call({0}, pair, AllReduce(8192));
  for (const std::uint64_t count : {60000, 1}) job.Call(Range(0, 4), kWorld, AllReduce(count));
  job.Pass(12);
  const Diagnosis diagnosis = job.Diagnose();
  Expect(diagnosis, Kind::kStepMismatch, Certainty::kSuspected, {1});
  EXPECT_NE(diagnosis.findings.front().summary.find("one of the collectives 20 to 21 of"), std::string::npos)
      << diagnosis.findings.front().summary;
  ExpectEvidence(diagnosis, "from collective 20 on data of different calls may have been combined");
}

TEST(StepMismatch, ARankThatWaitsInACallThatItsStepsNeverHad) {
  Pairs pairs;
  Job& job = pairs.job;
  pairs.Tensor();
  job.Call({1}, pairs.one, AllReduce(500));
  for (const std::uint64_t count : {60000, 1}) job.Call(Range(0, 4), kWorld, AllReduce(count));
  job.Pass(12);
  const Diagnosis diagnosis = job.Diagnose();
  Expect(diagnosis, Kind::kStepMismatch, Certainty::kSuspected, {1});
  EXPECT_NE(diagnosis.findings.front().summary.find("Rank 1 made one extra AllReduce of 500"), std::string::npos);
}

TEST(StepMismatch, NotOfARankThatStandsBeforeTheCall) {
  Pairs pairs;
  Job& job = pairs.job;
  job.Done({0, 1}, pairs.one, AllReduce(4096));
  job.Call({0}, pairs.one, AllReduce(8192));
  job.Pass(12);
  Expect(job.Diagnose(), Kind::kMissingParticipant, Certainty::kSuspected, {1});
}

// The call is new, and all were to make it; the one that has not stands in its data loader.
TEST(StepMismatch, NotWhereTheOthersHaveNotPassedTheExtraCall) {
  Pairs pairs;
  Job& job = pairs.job;
  job.Call({1}, pairs.one, AllReduce(500));
  job.Call({1}, pairs.one, AllReduce(4096));
  job.Call({1}, pairs.one, AllReduce(8192));
  job.Pass(12);
  Expect(job.Diagnose(), Kind::kMissingParticipant, Certainty::kSuspected, {0});
}

}  // namespace
}  // namespace ncclwatch::testing
