// Small parts: queues, patience, clocks, payloads, what is remembered.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <random>

#include "ncclwatch/nanoseconds.h"
#include "watchdog/exchange/protocol/adaptive_timeout.h"
#include "watchdog/exchange/protocol/bounded_queue.h"
#include "watchdog/exchange/protocol/clock_filter.h"
#include "watchdog/exchange/protocol/mailbox.h"
#include "watchdog/exchange/protocol/wire.h"
#include "watchdog/exchange/tcp/memory.h"

namespace ncclwatch::exchange {
namespace {

Parcel Of(std::uint16_t kind, bool droppable, std::size_t bytes = 0) {
  return {kind, droppable, "", std::make_shared<const std::string>(bytes, 'x')};
}

TEST(BoundedQueue, TheOldestDroppableGoesFirst) {
  BoundedQueue<Parcel> queue(4, 1 << 20);
  std::uint64_t dropped = 0;
  for (const auto& [kind, droppable] : {std::pair(1, true), {2, false}, {3, true}, {4, true}, {5, false}, {6, true}})
    EXPECT_TRUE(queue.Push(Of(static_cast<std::uint16_t>(kind), droppable), &dropped));
  EXPECT_EQ(dropped, 2u);
  std::vector<int> left;
  while (const auto parcel = queue.Pop()) left.push_back(parcel->kind);
  EXPECT_EQ(left, (std::vector<int>{2, 4, 5, 6}));
  EXPECT_EQ(queue.bytes(), 0u);
}

TEST(BoundedQueue, WhatMustNotBeLostIsRefusedInstead) {
  BoundedQueue<Parcel> queue(2, 1 << 20);
  std::uint64_t dropped = 0;
  EXPECT_TRUE(queue.Push(Of(1, false), &dropped));
  EXPECT_TRUE(queue.Push(Of(2, false), &dropped));
  EXPECT_FALSE(queue.Push(Of(3, false), &dropped));
  EXPECT_FALSE(queue.Push(Of(4, true), &dropped));
  EXPECT_EQ(dropped, 0u);
}

TEST(BoundedQueue, BytesAreBoundedToo) {
  BoundedQueue<Parcel> queue(100, 1000);
  std::uint64_t dropped = 0;
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(queue.Push(Of(1, true, 200), &dropped));
  EXPECT_LE(queue.bytes(), 1000u);
  EXPECT_EQ(queue.size() + dropped, 50u);
  EXPECT_FALSE(queue.Push(Of(1, true, 5000), &dropped)) << "larger than the whole queue";
}

TEST(BoundedQueue, RandomUseKeepsItsSums) {
  std::mt19937 random(1);
  BoundedQueue<Parcel> queue(20, 4000);
  std::uint64_t dropped = 0;
  std::size_t pushed = 0, popped = 0;
  for (int i = 0; i < 20'000; ++i) {
    if (random() % 3 != 0)
      pushed += queue.Push(Of(1, random() % 2 == 0, random() % 600), &dropped);
    else
      popped += queue.Pop().has_value();
    ASSERT_EQ(pushed, popped + dropped + queue.size());
    ASSERT_LE(queue.bytes(), 4000u);
  }
}

TEST(Mailbox, AUserThatDoesNotLookCostsABoundedAmount) {
  Mailbox mailbox;
  for (int i = 0; i < 30'000; ++i) mailbox.Deliver({Type::kSummary, "a", 1, std::string(100, 's')});
  mailbox.Deliver({Type::kVerdict, "a", 1, "kept"});
  std::size_t came = 0;
  std::string last;
  while (const auto message = mailbox.Receive()) {
    ++came;
    last = message->body;
  }
  EXPECT_EQ(last, "kept");
  EXPECT_EQ(came + mailbox.counters().summaries_dropped, 30'001u);
  EXPECT_LT(came, 20'000u);
  for (int i = 0; i < 1000; ++i) mailbox.Say("line");
  EXPECT_LE(mailbox.TakeLines().size(), 32u);
}

TEST(AdaptiveTimeout, IsWhatTheNetworkHasShown) {
  Timing timing;
  AdaptiveTimeout patience(timing, 0);
  EXPECT_EQ(patience.Limit_ns(), timing.first_patience);
  std::int64_t now = 0;
  for (int i = 0; i < 20; ++i) patience.Heard(now += 250 * kMs);
  EXPECT_EQ(patience.Limit_ns(), timing.least_patience);
  EXPECT_FALSE(patience.IsOver(now + 900 * kMs, 0));
  EXPECT_TRUE(patience.IsOver(now + 1100 * kMs, 0));
  patience.Heard(now += 900 * kMs);  // a packet was lost and said again
  EXPECT_EQ(patience.Limit_ns(), 2700 * kMs);
  for (int i = 0; i < 50; ++i) patience.Heard(now += 250 * kMs);
  EXPECT_EQ(patience.Limit_ns(), 2700 * kMs) << "remembered for a while";
  for (int i = 0; i < 100; ++i) patience.Heard(now += 250 * kMs);
  EXPECT_EQ(patience.Limit_ns(), timing.least_patience);
  patience.Heard(now += 60'000 * kMs);
  EXPECT_EQ(patience.Limit_ns(), timing.most_patience);
}

TEST(AdaptiveTimeout, OnesOwnSleepIsNobodysSilence) {
  AdaptiveTimeout patience(Timing(), 0);
  EXPECT_TRUE(patience.IsOver(60'000 * kMs, 0));
  EXPECT_FALSE(patience.IsOver(60'000 * kMs, 59'000 * kMs));
}

// A true offset, delays of the two ways, and a clock that runs 100 ppm fast: the bound must hold at every instant.
TEST(ClockFilter, TheErrorBoundHolds) {
  std::mt19937 random(5);
  ClockFilter filter;
  constexpr std::int64_t kOffset = -7'777'777'777'777;
  const auto theirs = [](std::int64_t ours) { return ours + kOffset + ours / 10'000; };
  std::int64_t now = 1'000'000 * kMs;
  for (int i = 0; i < 2000; ++i) {
    const std::int64_t there = 50'000 + static_cast<std::int64_t>(random() % (i % 7 == 0 ? 100'000 : 40'000'000));
    const std::int64_t back = 50'000 + static_cast<std::int64_t>(random() % (i % 5 == 0 ? 100'000 : 40'000'000));
    const std::int64_t t1 = now, arrived = t1 + there, left = arrived + 1000, t4 = left + back;
    filter.Add(t1, theirs(arrived), theirs(left), t4);
    now = t4 + static_cast<std::int64_t>(random() % (300 * kMs));
    const auto best = filter.Best(now);
    ASSERT_TRUE(best);
    const std::int64_t wrong = best->offset_ns - (theirs(now) - now);
    ASSERT_LE(std::abs(wrong), best->error_ns) << i;
  }
  EXPECT_LT(filter.Best(now)->error_ns, 5 * kMs);
}

TEST(ClockFilter, AClockThatWasSetBackIsBelievedAnew) {
  ClockFilter filter;
  std::int64_t now = 0;
  for (int i = 0; i < 16; ++i, now += 100 * kMs) filter.Add(now, now + 5000 * kMs, now + 5000 * kMs, now + kMs);
  EXPECT_NEAR(static_cast<double>(filter.Best(now)->offset_ns), 5000.0 * kMs, 1.0 * kMs);
  filter.Add(now, now + 100 * kMs, now + 100 * kMs, now + kMs);
  EXPECT_NEAR(static_cast<double>(filter.Best(now)->offset_ns), 100.0 * kMs, 1.0 * kMs);
}

TEST(ClockFilter, ImpossibleSamplesAreLeftOut) {
  ClockFilter filter;
  filter.Add(100, 0, 0, 50);
  filter.Add(0, 100, 50, 200);
  filter.Add(0, 0, 500, 100);
  EXPECT_FALSE(filter.Best(0));
}

TEST(Claim, MembersThenTermThenName) {
  EXPECT_TRUE((Claim{3, 1, "z"}.Beats({2, 9, "a"})));
  EXPECT_TRUE((Claim{2, 3, "z"}.Beats({2, 2, "a"})));
  EXPECT_TRUE((Claim{2, 2, "a"}.Beats({2, 2, "b"})));
  EXPECT_FALSE((Claim{2, 2, "a"}.Beats({2, 2, "a"})));
}

SuccessionList SomeSuccession() {
  return {7,
          250,
          {{1, *Endpoint::Parse("10.0.0.1", 40001), "n1", "h1"}, {3, *Endpoint::Parse("fd00::2", 40002), "n2", ""}}};
}

TEST(Wire, EveryPayloadComesBackAndNoneIsTakenCutOrLonger) {
  const auto check = [](const std::string& bytes, auto decode) {
    EXPECT_TRUE(decode(bytes));
    for (std::size_t i = 0; i < bytes.size(); ++i) EXPECT_FALSE(decode(bytes.substr(0, i))) << i;
    EXPECT_FALSE(decode(bytes + "x"));
  };
  check(Join{true, 5, 6, 7, 8, "node", "host", 9}.Encode(), Join::Decode);
  check(Welcome{1, 2, 3, 4, 5, "node", "host"}.Encode(), Welcome::Decode);
  check(Redirect{1, Endpoint::Parse("10.0.0.1", 4), "node"}.Encode(), Redirect::Decode);
  check(SomeSuccession().Encode(), SuccessionList::Decode);
  check(Ping{1, -2, 3}.Encode(), Ping::Decode);
  check(Pong{1, 2, 3}.Encode(), Pong::Decode);
  const auto join = Join::Decode(Join{true, 5, 6, 7, 8, "node", "host", 9}.Encode());
  EXPECT_TRUE(join->hub && join->incarnation == 5 && join->term == 6 && join->members == 7 && join->port == 8);
  EXPECT_EQ(join->node + join->host, "nodehost");
  EXPECT_EQ(SuccessionList::Decode(SomeSuccession().Encode())->successors[1].at.ToText(), "[fd00::2]:40002");
  EXPECT_FALSE(Join::Decode(Join{false, 0, 0, 0, 0, "", "host", 0}.Encode())) << "a node without a name";
  EXPECT_FALSE(Pong::Decode(Pong{INT64_MAX, 2, 3}.Encode())) << "no clock says that";
  std::string_view body;
  const std::string whole = Envelope{Type::kVerdict, 9, "to"}.Encode() + "body";
  const auto envelope = Envelope::Decode(whole, &body);
  ASSERT_TRUE(envelope);
  EXPECT_EQ(envelope->other, "to");
  EXPECT_EQ(body, "body");
  EXPECT_FALSE(Envelope::Decode(Envelope{Type::kJoined, 9, "to"}.Encode(), &body)) << "not a leader's to say";
}

TEST(Memory, ComesBackWholeOrNotAtAll) {
  Memory memory;
  memory.was_hub = true;
  memory.port = 40000;
  memory.hub = Endpoint::Parse("10.0.0.9", 40001);
  memory.hub_node = "hub";
  memory.succession = SomeSuccession();
  const auto directory = descriptors::Directory::Named("/tmp");
  const std::string name = "ncclwatch-memory-test-" + std::to_string(getpid());
  EXPECT_FALSE(Recall(directory, name));
  Remember(directory, name, memory);
  const auto found = Recall(directory, name);
  directory.Unlink(name);
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->was_hub);
  EXPECT_EQ(found->port, 40000);
  EXPECT_EQ(found->hub, memory.hub);
  EXPECT_EQ(found->hub_node, "hub");
  EXPECT_EQ(found->succession.term, 7u);
  EXPECT_EQ(found->succession.successors.at(1).node, "n2");
  std::string bytes = memory.Encode();
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    EXPECT_FALSE(Memory::Decode(bytes.substr(0, i)));
    bytes[i] = static_cast<char>(bytes[i] ^ 0x20);
    EXPECT_FALSE(Memory::Decode(bytes)) << i;
    bytes[i] = static_cast<char>(bytes[i] ^ 0x20);
  }
}

}  // namespace
}  // namespace ncclwatch::exchange
