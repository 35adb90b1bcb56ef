// point_to_point_mismatch of MPI: messages that pass by the receive meant for them, and such as do not fit it.
#include <gtest/gtest.h>

#include "tests/unit/diagnosis/verdicts.h"
#include "tests/unit/support/mpi_job.h"

namespace ncclwatch::testing {
namespace {

using diagnosis::Certainty;
using diagnosis::Kind;

void ExpectMismatch(const MpiJob& job, Certainty certainty, const std::string& part_of_summary) {
  const auto diagnosis = job.Diagnose();
  Expect(diagnosis, Kind::kPointToPointMismatch, certainty, {0, 1});
  ASSERT_FALSE(diagnosis.findings.empty());
  EXPECT_NE(diagnosis.findings[0].summary.find(part_of_summary), std::string::npos) << diagnosis.findings[0].summary;
}

void ExpectNothing(const MpiJob& job) {
  for (const diagnosis::Finding& finding : job.Diagnose().findings) ADD_FAILURE() << finding.summary;
}

MpiJob Exchanged(const MpiMessage& sent, const MpiMessage& received) {
  MpiJob job(2);
  MpiMessage out = sent, in = received;
  out.peer = 1;
  in.peer = 0;
  job.Sent(0, out);
  job.Received(1, in);
  return job;
}

// It may have been meant for somebody else's message.
TEST(MpiMessage, WhatAWildcardReceiveTookIsLikelyWhereThereAreOthers) {
  for (const int ranks : {2, 3}) {
    MpiJob job(ranks);
    job.Sent(0, {.peer = 1, .signature = 0x77});
    const std::uint64_t receive = job.Recv(1, {.peer = kAny});
    job.Receipt(1, receive, 0, 0);
    job.Return(1, receive);
    ExpectMismatch(job, ranks == 2 ? Certainty::kCertain : Certainty::kLikely, "Rank 0 sends");
  }
}

TEST(MpiMessage, TagPassedBy) {
  MpiJob job(2);
  job.Sent(0, {.peer = 1, .tag = 1});
  job.Recv(0, {.peer = 1, .tag = 3});
  job.Recv(1, {.peer = 0, .tag = 2});
  ExpectMismatch(job, Certainty::kCertain, "tag 1 instead of 2");
}

TEST(MpiMessage, HeldSendPassedBy) {
  MpiJob job(2);
  job.Ssend(0, {.peer = 1, .tag = 1});
  job.Recv(1, {.peer = 0, .tag = 2});
  ExpectMismatch(job, Certainty::kCertain, "tag 1 instead of 2");
}

TEST(MpiMessage, OnAnotherCommunicator) {
  MpiJob job(2);
  const int other = job.MpiComm({0, 1});
  job.Ssend(0, {.peer = 1, .comm = other});
  job.Recv(1, {.peer = 0});
  ExpectMismatch(job, Certainty::kCertain, "another communicator");
}

// From whomever it is meant to come: another one may be the one that is missing.
TEST(MpiMessage, OnAnotherCommunicatorThanAWildcardReceive) {
  MpiJob job(3);
  const int other = job.MpiComm({0, 1, 2});
  job.Sent(2, {.peer = 0, .tag = 4, .comm = other});
  job.Recv(2, {.peer = 0});
  job.Recv(1, {.peer = 0});
  job.Recv(0, {.peer = kAny, .tag = 4});
  Expect(job.Diagnose(), Kind::kPointToPointMismatch, Certainty::kLikely, {0, 2});
}

TEST(MpiMessage, LongerThanItsReceive) {
  ExpectMismatch(Exchanged({.bytes = 400}, {.bytes = 200}), Certainty::kCertain, "room for 200");
  ExpectNothing(Exchanged({.bytes = 200}, {.bytes = 400}));
  ExpectNothing(Exchanged({.bytes = 0}, {.bytes = 400, .dtype = kMpiFloat}));
}

TEST(MpiMessage, OfAnotherType) {
  ExpectMismatch(Exchanged({.signature = 1}, {.dtype = kMpiFloat, .signature = 2}), Certainty::kCertain, "receives");
  ExpectMismatch(Exchanged({.bytes = 40, .signature = 1}, {.dtype = kMpiFloat, .signature = 2}), Certainty::kCertain,
                 "receives");
}

TEST(MpiMessage, BytesAreOnlyLikely) {
  ExpectMismatch(Exchanged({.dtype = kMpiByte, .signature = 1}, {.signature = 2}), Certainty::kLikely, "receives");
  ExpectMismatch(Exchanged({.signature = 1}, {.dtype = kMpiByte, .signature = 2}), Certainty::kLikely, "receives");
}

TEST(MpiMessage, DerivedTypesOfTheSameElements) {
  constexpr std::uint8_t kDerived = 0xfd;
  ExpectNothing(Exchanged({.dtype = kDerived, .signature = 7}, {.dtype = kDerived, .signature = 7}));
  ExpectMismatch(Exchanged({.dtype = kDerived, .signature = 7}, {.dtype = kDerived, .signature = 8}),
                 Certainty::kCertain, "receives");
  // Part of the receive: the beginnings may be equal.
  ExpectNothing(Exchanged({.bytes = 32, .dtype = kDerived, .signature = 7}, {.dtype = kDerived, .signature = 8}));
  ExpectNothing(Exchanged({.dtype = kDerived, .signature = 0}, {.bytes = 8, .dtype = kDerived, .signature = 8}));
}

TEST(MpiMessage, PackedFitsAll) {
  ExpectNothing(Exchanged({.dtype = kMpiPacked, .signature = 1}, {.signature = 2}));
  ExpectNothing(Exchanged({.signature = 1}, {.dtype = kMpiPacked, .signature = 2}));
}

TEST(MpiMessage, OverThreadsItIsOnlyLikely) {
  MpiJob job = Exchanged({.bytes = 400}, {.bytes = 200});
  job.Sent(0, {.peer = 1});
  job.Box(0).calls.back().thread += 1;
  ExpectMismatch(job, Certainty::kLikely, "room for 200");
}

// Two messages of one tag: the first receive called gets the first of them, whichever is completed first.
TEST(MpiMessage, ReceivesCompletedInAnotherOrder) {
  for (const bool both : {false, true}) {
    MpiJob job(2);
    const auto large = job.Irecv(1, {.peer = 0, .bytes = 400}), small = job.Irecv(1, {.peer = 0, .bytes = 40});
    job.Sent(0, {.peer = 1, .bytes = 400});
    job.Sent(0, {.peer = 1, .bytes = 40});
    job.Receipt(1, small, 0, 0);
    job.Complete(1, small);
    if (both) job.Receipt(1, large, 0, 0);
    if (both) job.Complete(1, large);
    ExpectNothing(job);
    job.Sent(0, {.peer = 1, .tag = 1, .bytes = 400});  // of another tag all is clear
    job.Received(1, {.peer = 0, .tag = 1, .bytes = 200});
    ExpectMismatch(job, Certainty::kCertain, "room for 200");
  }
}

// Which of them a wildcard receive got, that is still open, nobody knows.
TEST(MpiMessage, BehindAWildcardReceive) {
  MpiJob job(3);
  job.Irecv(1, {.peer = kAny, .bytes = 400});
  const auto small = job.Irecv(1, {.peer = 0, .bytes = 40});
  job.Sent(0, {.peer = 1, .bytes = 400});
  job.Sent(0, {.peer = 1, .bytes = 40});
  job.Receipt(1, small, 0, 0);
  job.Complete(1, small);
  ExpectNothing(job);
}

// Its message ends the receiver in the call that would have completed it.
TEST(MpiMessage, LongerThanAnOpenReceive) {
  MpiJob job(2);
  const auto receive = job.Irecv(1, {.peer = 0, .bytes = 200});
  job.Irecv(1, {.peer = 0, .tag = 1, .bytes = 400});
  job.Sent(0, {.peer = 1, .bytes = 400});
  job.Wait(1, Function::MPI_Waitall, {receive});
  ExpectMismatch(job, Certainty::kCertain, "room for 200");
  job.Box(1).first_slot = 1;  // a receive that is lost may be the one that takes it
  ExpectMismatch(job, Certainty::kLikely, "room for 200");
}

TEST(MpiMessage, AnOpenReceiveMayHaveHadItsMessage) {
  MpiJob later(2);  // the second receive is over, so that the first has met the first message
  later.Irecv(1, {.peer = 0, .bytes = 40});
  later.Sent(0, {.peer = 1, .bytes = 40});
  later.Sent(0, {.peer = 1, .bytes = 400});
  later.Received(1, {.peer = 0, .bytes = 400});
  ExpectNothing(later);

  MpiJob probed(2);
  const auto probe = probed.Probe(1, {.peer = 0, .function = Function::MPI_Mprobe});
  probed.Return(1, probe);
  probed.Irecv(1, {.peer = 0, .bytes = 40});
  probed.Sent(0, {.peer = 1, .bytes = 400});
  ExpectNothing(probed);

  MpiJob given_back(2);
  given_back.Irecv(1, {.peer = 0, .bytes = 400, .flags = format::kForgotten});
  given_back.Irecv(1, {.peer = 0, .bytes = 40});
  given_back.Sent(0, {.peer = 1, .bytes = 400});
  ExpectNothing(given_back);
}

// Probes take messages in order, and their receives may come in another.
TEST(MpiMessage, MatchedReceivesInAnotherOrder) {
  MpiJob job(2);
  job.Sent(0, {.peer = 1, .bytes = 400});
  job.Sent(0, {.peer = 1, .bytes = 40});
  job.Received(1, {.peer = 0, .bytes = 40, .function = Function::MPI_Mrecv});
  job.Received(1, {.peer = 0, .bytes = 400, .function = Function::MPI_Mrecv});
  ExpectNothing(job);
}

// MPI ends the job over it before anybody is told whose message it was.
TEST(MpiMessage, TooLongForTheReceiveInWhichARankDied) {
  const auto died = [](std::uint64_t bytes, std::uint64_t room_before, bool dead = true) {
    MpiJob job(3);
    job.Sent(0, {.peer = 1, .bytes = bytes});
    if (room_before > 0) job.Irecv(1, {.peer = kAny, .bytes = room_before});
    job.Recv(1, {.peer = kAny, .bytes = 16});
    job.Collective(0, Function::MPI_Barrier);
    if (dead) job.Die(1, Job::Status(15));
    return job;
  };
  ExpectMismatch(died(32, 0), Certainty::kLikely, "which has room for 16");
  MpiJob any_tag(2);
  any_tag.Sent(0, {.peer = 1, .tag = 8, .bytes = 32});
  any_tag.Recv(1, {.peer = 0, .tag = kAny, .bytes = 16});
  any_tag.Die(1, Job::Unknown());
  ExpectMismatch(any_tag, Certainty::kLikely, "which has room for 16");
  for (const MpiJob& job : {died(16, 0), died(32, 32)})
    for (const diagnosis::Finding& finding : job.Diagnose().findings)
      EXPECT_NE(Name(finding.kind), Name(Kind::kPointToPointMismatch)) << finding.summary;
  ExpectNothing(died(32, 0, false));
}

// The leader had read the clock before it was kept waiting, and saw the end only then.
TEST(MpiMessage, TooLongThoughTheEndSeemsEarlier) {
  MpiJob job(3);
  job.At(1);
  job.Sent(0, {.peer = 1, .bytes = 32});
  job.Die(1, Job::Status(15));
  job.Pass(0.001);
  job.Irecv(1, {.peer = 0, .bytes = 16});
  for (const int rank : {0, 2}) job.Collective(rank, Function::MPI_Barrier);
  job.Pass(0.01);
  Expect(job.Diagnose(), Kind::kPointToPointMismatch, Certainty::kCertain, {0, 1});
}

TEST(MpiMessage, NeverReceived) {
  MpiJob job(3);
  job.Sent(0, {.peer = 1, .tag = 4});
  job.Sent(0, {.peer = 1, .tag = 5});
  job.Received(1, {.peer = 0, .tag = 4});
  for (const int rank : {0, 1}) job.Finalize(rank);
  ExpectNothing(job);
  job.Finalize(2);
  ExpectMismatch(job, Certainty::kLikely, "which never received it");
}

TEST(MpiMessage, ReceivedCancelledOrForNobody) {
  MpiJob job(2);
  job.Sent(0, {.peer = 1});
  job.Received(1, {.peer = 0});
  job.Sent(0, {.peer = 1, .tag = 6, .flags = format::kCancelled});
  for (const int rank : {0, 1}) job.Finalize(rank);
  ExpectNothing(job);
}

// A receive whose request was given up may have got it.
TEST(MpiMessage, NotWhereAReceiveWasGivenUp) {
  MpiJob job(2);
  job.Irecv(1, {.peer = 0, .flags = format::kForgotten});
  job.Sent(0, {.peer = 1});
  for (const int rank : {0, 1}) job.Finalize(rank);
  ExpectNothing(job);
}

}  // namespace
}  // namespace ncclwatch::testing
