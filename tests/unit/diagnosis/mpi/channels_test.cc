// Which send of MPI met which receive, and what is under way.
#include <gtest/gtest.h>

#include "core/calls/mpi_message.h"
#include "core/mpi/channels.h"
#include "tests/unit/support/mpi_job.h"

namespace ncclwatch::testing {
namespace {

using diagnosis::Channel;
using diagnosis::Channels;
using diagnosis::IsOpen;
using diagnosis::IsReceive;
using diagnosis::IsSend;

constexpr int kWorldIndex = 0;

// What the channels point into.
struct Seen {
  explicit Seen(diagnosis::Snapshot all) : snapshot(std::move(all)), view(MakeView(snapshot)), channels(view) {}
  explicit Seen(const MpiJob& job) : Seen(job.Snapshot()) {}
  const Channel& Of(std::uint32_t sender, std::uint32_t receiver) const {
    const Channel* channel = channels.Of(kWorldIndex, sender, receiver);
    EXPECT_NE(channel, nullptr);
    static const Channel none;
    return channel != nullptr ? *channel : none;
  }
  const reader::Call& Call(int rank, std::uint64_t slot) const {
    const reader::BoxImage& box = snapshot.boxes.at(static_cast<std::size_t>(rank));
    return box.calls.at(slot - box.first_slot);
  }

  const diagnosis::Snapshot snapshot;
  const diagnosis::View view;
  const Channels channels;
};

std::vector<std::uint64_t> Positions(const std::vector<const reader::Call*>& calls) {
  std::vector<std::uint64_t> positions;
  for (const reader::Call* call : calls) positions.push_back(call->position);
  return positions;
}

using Pairs = std::vector<std::pair<std::uint64_t, std::uint64_t>>;  // positions of send and receipt

Pairs Met(const Channel& channel) {
  Pairs pairs;
  for (const auto& [send, receipt] : channel.met) pairs.emplace_back(send->position, receipt->position);
  std::sort(pairs.begin(), pairs.end());
  return pairs;
}

TEST(MpiChannels, InOrder) {
  MpiJob job(2);
  for (const int tag : {3, 4, 5}) job.Sent(0, {.peer = 1, .tag = tag});
  for (const int tag : {3, 4}) job.Received(1, {.peer = 0, .tag = tag});
  const Seen seen(job);
  EXPECT_TRUE(seen.Of(0, 1).known);
  EXPECT_EQ(Positions(seen.Of(0, 1).under_way), std::vector<std::uint64_t>{2});
  EXPECT_EQ(Met(seen.Of(0, 1)), (Pairs{{0, 0}, {1, 1}}));
  EXPECT_EQ(seen.channels.Of(kWorldIndex, 1, 0), nullptr);
}

TEST(MpiChannels, ReceivesOvertake) {
  MpiJob job(2);
  for (const int tag : {3, 4, 5, 6}) job.Sent(0, {.peer = 1, .tag = tag});
  for (const int tag : {5, 4}) job.Received(1, {.peer = 0, .tag = tag});
  const Seen seen(job);
  EXPECT_TRUE(seen.Of(0, 1).known);
  EXPECT_EQ(Positions(seen.Of(0, 1).under_way), (std::vector<std::uint64_t>{0, 3}));
  EXPECT_EQ(Met(seen.Of(0, 1)), (Pairs{{1, 1}, {2, 0}}));
}

TEST(MpiChannels, OneTagTwiceGoesInOrder) {
  MpiJob job(2);
  for (const int tag : {3, 3, 4, 3}) job.Sent(0, {.peer = 1, .tag = tag});
  for (const int tag : {4, 3}) job.Received(1, {.peer = 0, .tag = tag});
  const Seen seen(job);
  EXPECT_EQ(Positions(seen.Of(0, 1).under_way), (std::vector<std::uint64_t>{1, 3}));
  EXPECT_EQ(Met(seen.Of(0, 1)), (Pairs{{0, 1}, {2, 0}}));
}

TEST(MpiChannels, RingsThatWrappedAtDifferentPoints) {
  MpiJob job(2);
  for (int i = 0; i < 20; ++i) job.Sent(0, {.peer = 1, .tag = i % 4});
  // In pairs, the second first: the sums agree at every other position.
  for (int i = 0; i < 18; i += 2) {
    job.Received(1, {.peer = 0, .tag = (i + 1) % 4});
    job.Received(1, {.peer = 0, .tag = i % 4});
  }
  for (const auto& [of_sender, of_receiver] : {std::pair{15, 9}, std::pair{5, 14}, std::pair{0, 0}}) {
    MpiJob wrapped = job;
    wrapped.Forget(0, static_cast<std::uint64_t>(of_sender));
    wrapped.Forget(1, static_cast<std::uint64_t>(of_receiver));
    const Seen seen(wrapped);
    EXPECT_TRUE(seen.Of(0, 1).known);
    EXPECT_EQ(Positions(seen.Of(0, 1).under_way), (std::vector<std::uint64_t>{18, 19}));
  }
}

TEST(MpiChannels, WithoutACommonCutNothingIsKnown) {
  MpiJob job(2);
  for (int i = 0; i < 4; ++i) job.Sent(0, {.peer = 1, .tag = i});
  for (const int tag : {3, 2, 1}) job.Received(1, {.peer = 0, .tag = tag});  // agree nowhere
  EXPECT_TRUE(Seen(job).Of(0, 1).known);                                     // but at the start
  job.Forget(0, 1);
  EXPECT_FALSE(Seen(job).Of(0, 1).known);
  job.Received(1, {.peer = 0, .tag = 0});
  EXPECT_TRUE(Seen(job).Of(0, 1).known);
  EXPECT_TRUE(Seen(job).Of(0, 1).under_way.empty());
}

TEST(MpiChannels, BothRingsHaveLostAllOfIt) {
  MpiJob job(2);
  for (int i = 0; i < 3; ++i) job.Sent(0, {.peer = 1});
  for (int i = 0; i < 2; ++i) job.Received(1, {.peer = 0});
  job.Forget(0, 3);
  job.Forget(1, 2);
  EXPECT_FALSE(Seen(job).Of(0, 1).known);
  const auto receive = job.Recv(1, {.peer = 0});
  job.Receipt(1, receive, 0, 0);
  EXPECT_TRUE(Seen(job).Of(0, 1).known);
}

// A receive that was open for long: its record is lost before its message comes.
TEST(MpiChannels, AReceiptWithoutARecord) {
  MpiJob job(2);
  const auto early = job.Irecv(1, {.peer = 0, .tag = 1});
  for (const int tag : {1, 2, 3}) job.Sent(0, {.peer = 1, .tag = tag});
  job.Receipt(1, early, 0, 1);
  job.Received(1, {.peer = 0, .tag = 3});
  EXPECT_TRUE(Seen(job).Of(0, 1).known);
  job.Forget(1, early + 1);
  EXPECT_FALSE(Seen(job).Of(0, 1).known);
}

TEST(MpiChannels, SidesReadAtDifferentInstants) {
  MpiJob job(2);
  job.Sent(0, {.peer = 1, .tag = 1});
  job.Received(1, {.peer = 0, .tag = 1});
  diagnosis::Snapshot early = job.Snapshot();
  job.Sent(0, {.peer = 1, .tag = 2});
  job.Received(1, {.peer = 0, .tag = 2});
  diagnosis::Snapshot late = job.Snapshot();
  std::swap(early.boxes[0], late.boxes[0]);
  EXPECT_TRUE(Seen(early).Of(0, 1).known);  // the receiver earlier: one is under way, as it was then
  EXPECT_EQ(Positions(Seen(early).Of(0, 1).under_way), std::vector<std::uint64_t>{1});
  EXPECT_FALSE(Seen(late).Of(0, 1).known);  // the receiver later: it has received what is not sent yet
  EXPECT_TRUE(Seen(late).Of(0, 1).under_way.empty());
}

TEST(MpiChannels, CountsReadBeforeCalls) {
  MpiJob job(2);
  job.Sent(0, {.peer = 1});
  const auto peers = job.Box(0).peers;
  job.Sent(0, {.peer = 1});
  job.Box(0).peers = peers;
  EXPECT_FALSE(Seen(job).Of(0, 1).known);
}

TEST(MpiChannels, ToItself) {
  MpiJob job(2);
  const auto receive = job.Irecv(0, {.peer = 0});
  job.Sent(0, {.peer = 0});
  const Seen open(job);
  EXPECT_EQ(open.channels.ClaimOf(&open.Call(0, receive)), open.Of(0, 0).under_way.at(0));
  job.Receipt(0, receive, 0, 0);
  EXPECT_EQ(Met(Seen(job).Of(0, 0)), (Pairs{{0, 0}}));
}

TEST(MpiChannels, ToNobody) {
  MpiJob job(2);
  job.Sent(0, {.peer = kNobody});
  job.Received(0, {.peer = kNobody});
  const auto open = job.Irecv(0, {.peer = kNobody});
  const Seen seen(job);
  EXPECT_TRUE(seen.channels.all().empty());
  EXPECT_FALSE(IsOpen(seen.Call(0, open)));
}

TEST(MpiChannels, BothRecordsOfAnExchange) {
  MpiJob job(2);
  const auto receive = job.Sendrecv(0, {.peer = 1, .tag = 5}, {.peer = 1, .tag = 6});
  const Seen seen(job);
  EXPECT_TRUE(IsSend(seen.Call(0, receive - 1)));
  EXPECT_TRUE(IsReceive(seen.Call(0, receive)));
  EXPECT_EQ(seen.Of(0, 1).under_way, std::vector{&seen.Call(0, receive - 1)});
  // Read before the two were joined, the first is neither.
  job.At(0, receive - 1).group = 0;
  const Seen apart(job);
  EXPECT_FALSE(IsSend(apart.Call(0, receive - 1)));
  EXPECT_FALSE(IsReceive(apart.Call(0, receive - 1)));
}

TEST(MpiChannels, OpenReceivesClaimInTheOrderOfTheirCalls) {
  MpiJob job(2);
  for (const int tag : {1, 2, 1}) job.Sent(0, {.peer = 1, .tag = tag});
  const auto first = job.Irecv(1, {.peer = 0, .tag = 1}), second = job.Irecv(1, {.peer = 0, .tag = kAny}),
             third = job.Irecv(1, {.peer = 0, .tag = kAny}), fourth = job.Irecv(1, {.peer = 0, .tag = kAny});
  const Seen seen(job);
  const auto& under_way = seen.Of(0, 1).under_way;
  EXPECT_EQ(seen.channels.ClaimOf(&seen.Call(1, first)), under_way.at(0));
  EXPECT_EQ(seen.channels.ClaimOf(&seen.Call(1, second)), under_way.at(1));
  EXPECT_EQ(seen.channels.ClaimOf(&seen.Call(1, third)), under_way.at(2));
  EXPECT_EQ(seen.channels.ClaimOf(&seen.Call(1, fourth)), nullptr);
  for (const reader::Call* send : under_way) EXPECT_FALSE(seen.channels.Free(send));
}

TEST(MpiChannels, AWildcardReceiveMayTakeAnyOfThem) {
  MpiJob job(3);
  job.Sent(0, {.peer = 2, .tag = 1});
  job.Sent(1, {.peer = 2, .tag = 1});
  job.Sent(1, {.peer = 2, .tag = 2});
  const auto wildcard = job.Irecv(2, {.peer = kAny, .tag = 1}), one = job.Irecv(2, {.peer = 0, .tag = 1});
  const Seen seen(job);
  EXPECT_NE(seen.channels.ClaimOf(&seen.Call(2, wildcard)), nullptr);
  EXPECT_EQ(seen.channels.ClaimOf(&seen.Call(2, one)), seen.Of(0, 2).under_way.at(0));
  EXPECT_FALSE(seen.channels.Free(seen.Of(0, 2).under_way.at(0)));
  EXPECT_FALSE(seen.channels.Free(seen.Of(1, 2).under_way.at(0)));
  EXPECT_TRUE(seen.channels.Free(seen.Of(1, 2).under_way.at(1)));
}

TEST(MpiChannels, AProbeSeesAndTakesNothing) {
  MpiJob job(2);
  job.Sent(0, {.peer = 1});
  const auto probe = job.Probe(1, {.peer = 0});
  const Seen seen(job);
  EXPECT_EQ(seen.channels.ClaimOf(&seen.Call(1, probe)), seen.Of(0, 1).under_way.at(0));
  EXPECT_TRUE(seen.channels.Free(seen.Of(0, 1).under_way.at(0)));
}

TEST(MpiChannels, CancelledAndForgottenReceivesAreNotOpen) {
  MpiJob job(2);
  job.Sent(0, {.peer = 1});
  const auto forgotten = job.Irecv(1, {.peer = 0, .flags = format::kForgotten});
  EXPECT_FALSE(IsOpen(Seen(job).Call(1, forgotten)));
  const auto cancelled = job.Irecv(1, {.peer = 0, .flags = format::kCancelled});
  EXPECT_TRUE(IsOpen(Seen(job).Call(1, cancelled))) << "it may be too late";
  job.Complete(1, cancelled);
  EXPECT_FALSE(IsOpen(Seen(job).Call(1, cancelled)));
}

}  // namespace
}  // namespace ncclwatch::testing
