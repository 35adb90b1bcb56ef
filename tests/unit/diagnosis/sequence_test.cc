// Sequences of calls as numbers: periods, steps and alignments of random ones whose truth is known.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "core/compare/sequence_alignment.h"
#include "core/steps/step_count.h"

namespace ncclwatch::diagnosis {
namespace {

using Random = std::mt19937_64;

std::size_t Below(Random* random, std::size_t end) { return static_cast<std::size_t>((*random)() % end); }

Symbol Heavy(std::uint64_t call, std::uint64_t communicator = 1) {
  return {.call = call, .communicator = communicator, .counter = communicator};
}
Symbol Light(std::uint64_t call) { return {.call = call, .communicator = 1, .heavy = false, .counter = 1}; }

// Layers that are all the same, gradients, and a norm.
std::vector<Symbol> RandomStep(Random* random) {
  std::vector<Symbol> step;
  const std::size_t layers = 1 + Below(random, 24), of_layer = 1 + Below(random, 3), buckets = 2 + Below(random, 6);
  for (std::size_t layer = 0; layer < layers; ++layer)
    for (std::size_t i = 0; i < of_layer; ++i) step.push_back(Heavy(100 + i, 2));
  for (std::size_t i = 0; i < buckets; ++i) step.push_back(Heavy(200 + i));
  step.push_back(Light(300));
  return step;
}

struct TrainingLoop {
  std::vector<Symbol> calls;
  std::vector<std::size_t> begins;  // of each step
};

// With an evaluation now and then, of calls of its own and of a forward pass.
TrainingLoop RandomTraining(Random* random, const std::vector<Symbol>& step, std::size_t steps) {
  TrainingLoop training;
  for (std::size_t i = Below(random, 10); i > 0; --i) training.calls.push_back(Heavy(1000 + i));
  const std::size_t every = 5 + Below(random, 10), own = 1 + Below(random, 2);
  for (std::size_t i = 0; i < steps; ++i) {
    training.begins.push_back(training.calls.size());
    training.calls.insert(training.calls.end(), step.begin(), step.end());
    if (i % every != every - 1) continue;
    for (std::size_t call = 0; call < own; ++call) training.calls.push_back(Heavy(400 + call));
  }
  return training;
}

void NumberPositions(std::vector<Symbol>* calls) {
  std::uint64_t positions[3] = {};
  for (Symbol& call : *calls) call.position = positions[call.counter]++;
}

TEST(Steps, OfARandomTrainingAreCountedExactlyFromItsBeginning) {
  Random random(1);
  for (int round = 0; round < 300; ++round) {
    const std::vector<Symbol> step = RandomStep(&random);
    const TrainingLoop training = RandomTraining(&random, step, 6 + Below(&random, 60));
    const std::size_t number = 5 + Below(&random, training.begins.size() - 5), call = Below(&random, step.size());
    std::vector<Symbol> calls = training.calls;
    calls.resize(training.begins[number] + call + 1);
    const std::optional<StepCount> count = CountSteps(calls, true);
    ASSERT_TRUE(count) << round;
    EXPECT_EQ(count->number, number) << round;
    EXPECT_TRUE(count->exact) << round;
    EXPECT_EQ(count->calls, step.size()) << round;
    EXPECT_EQ(count->call, call + 1) << round;
  }
}

TEST(Steps, OfAWrappedRingAreWorkedOutFromPositions) {
  Random random(2);
  int counted = 0;
  for (int round = 0; round < 200; ++round) {
    const std::vector<Symbol> step = RandomStep(&random);
    TrainingLoop training = RandomTraining(&random, step, 60);
    NumberPositions(&training.calls);
    const std::size_t number = 40 + Below(&random, 20), lost = training.begins[10 + Below(&random, 10)] + 1;
    const std::vector<Symbol> calls(training.calls.begin() + static_cast<std::ptrdiff_t>(lost),
                                    training.calls.begin() + static_cast<std::ptrdiff_t>(training.begins[number] + 1));
    const std::optional<StepCount> count = CountSteps(calls, false);
    if (!count) continue;
    ++counted;
    EXPECT_FALSE(count->exact) << round;
    EXPECT_EQ(count->calls, step.size()) << round;
    EXPECT_NEAR(static_cast<double>(count->number), static_cast<double>(number), 2) << round;
  }
  EXPECT_GT(counted, 150);
}

TEST(Steps, AreNotMadeOfCallsThatDoNotRepeatThemselves) {
  Random random(3);
  for (int round = 0; round < 50; ++round) {
    std::vector<Symbol> calls;
    for (int i = 0; i < 500; ++i) calls.push_back(Heavy(Below(&random, 12)));
    EXPECT_FALSE(CountSteps(calls, true)) << round;
  }
}

TEST(Steps, TheLayersOfTheFirstOneAreNone) {
  std::vector<Symbol> calls(48, Heavy(1));
  EXPECT_FALSE(CountSteps(calls, true));
  calls.insert(calls.end(), 300, Heavy(1));
  ASSERT_TRUE(CountSteps(calls, true));  // a loop of one call
  EXPECT_EQ(CountSteps(calls, true)->number, 347u);
  EXPECT_EQ(CountSteps(calls, true)->calls, 1u);
}

TEST(Steps, AFullRingTakesNoTime) {
  Random random(4);
  const std::vector<Symbol> step = RandomStep(&random);
  std::vector<Symbol> calls;
  while (calls.size() < 16384) calls.insert(calls.end(), step.begin(), step.end());
  EXPECT_TRUE(CountSteps(calls, true));
  std::vector<Symbol> same(16384, Heavy(1));
  EXPECT_EQ(CountSteps(same, true)->number, 16383u);
}

std::vector<std::uint64_t> RandomCalls(Random* random, std::size_t count) {
  std::vector<std::uint64_t> calls;
  for (std::size_t i = 0; i < count; ++i) calls.push_back(Below(random, 1000));
  return calls;
}

TEST(Alignment, FindsWhatWasDoneToARandomSequence) {
  Random random(5);
  for (int round = 0; round < 500; ++round) {
    const std::vector<std::uint64_t> usual = RandomCalls(&random, 20 + Below(&random, 60));
    const std::size_t count = 1 + Below(&random, 4);
    const auto end = static_cast<std::ptrdiff_t>(count);
    const Change change = static_cast<Change>(round % 3);
    std::vector<std::uint64_t> odd = usual;
    if (change != Change::kExtra) odd.erase(odd.begin(), odd.begin() + end);
    if (change != Change::kLeftOut)
      for (std::size_t i = 0; i < count; ++i) odd.insert(odd.begin(), 5000 + i);
    const std::vector<Alignment> found = Align(usual, odd);
    ASSERT_EQ(found.size(), 1u) << round;
    EXPECT_EQ(found[0].change, change) << round;
    EXPECT_EQ(found[0].calls, count) << round;
  }
}

TEST(Alignment, CallsInAnotherOrderAreReported) {
  const std::vector<Alignment> found = Align({1, 2, 3, 4, 5, 6}, {2, 1, 3, 4, 5, 6});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].change, Change::kReordered);
  EXPECT_EQ(found[0].agree, 4u);
}

TEST(Alignment, WhatFitsEquallyWellIsReportedBothWays) {
  const std::vector<Alignment> found = Align({1, 1, 1, 1, 1, 1}, {9, 1, 1, 1, 1, 1});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].change, Change::kExtra);
  EXPECT_EQ(found[1].change, Change::kReplaced);
}

TEST(Alignment, FewCallsProveNothing) {
  EXPECT_TRUE(Align({1, 2, 3}, {9, 1, 2}).empty());
  EXPECT_TRUE(Align({1, 2, 3, 4, 5, 6}, {9, 8, 7, 6, 9, 8}).empty());
}

}  // namespace
}  // namespace ncclwatch::diagnosis
