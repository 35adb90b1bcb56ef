// Stragglers and what they do meanwhile: which cause is named, and when none is.
#include "core/slow/meanwhile.h"

#include <gtest/gtest.h>

namespace ncclwatch::diagnosis {
namespace {

using reader::Doing;

Finding StragglerOf(std::vector<int> ranks) {
  Finding finding;
  finding.kind = Kind::kStraggler;
  finding.certainty = Certainty::kLikely;
  finding.culprits = ranks;
  for (const int rank : ranks) {
    Culprit& culprit = finding.culprit_details.emplace_back();
    culprit.rank = rank;
    culprit.host = "node1";
    culprit.pid = 100 + rank;
    culprit.start_time = 7;
  }
  finding.summary = "It is late.";
  return finding;
}

// So many samples of each, four in a wait.
reader::Meanwhile Seen(int rank, std::vector<std::pair<Doing, int>> counts) {
  reader::Meanwhile seen;
  seen.who.pid = 100 + static_cast<std::uint32_t>(rank);
  seen.who.start_time = 7;
  seen.who.host = "node1";
  seen.waited_ns = 1'000'000'000;
  for (const auto& [doing, count] : counts)
    for (int i = 0; i < count; ++i)
      seen.samples.push_back({seen.samples.size() / 4,
                              doing,
                              "in read of /data/17.bin (nfs4, mounted on /data)",
                              {"next_batch (train.py:57)", "main (train.py:91)"}});
  return seen;
}

TEST(Meanwhile, InputIsACauseOfItsOwn) {
  Finding finding = StragglerOf({2});
  ExplainStraggler({Seen(2, {{Doing::kInput, 13}, {Doing::kRunning, 3}})}, &finding);
  EXPECT_EQ(finding.kind, Kind::kStarvedInput);
  EXPECT_EQ(finding.certainty, Certainty::kLikely);
  EXPECT_EQ(finding.summary,
            "It is late. Meanwhile it reads input, in read of /data/17.bin (nfs4, mounted on /data); it stands in "
            "next_batch (train.py:57).");
  ASSERT_EQ(finding.evidence.size(), 2u);
  EXPECT_EQ(
      finding.evidence[0],
      "rank 2 reads input, in read of /data/17.bin (nfs4, mounted on /data) in 13 of 16 samples, taken in 4 waits "
      "of the others");
  EXPECT_EQ(finding.evidence[1], "rank 2 stands in next_batch (train.py:57), called from main (train.py:91)");
}

TEST(Meanwhile, ACheckpointToo) {
  Finding finding = StragglerOf({0});
  ExplainStraggler({Seen(0, {{Doing::kCheckpoint, 16}})}, &finding);
  EXPECT_EQ(finding.kind, Kind::kBlockingCheckpoint);
}

TEST(Meanwhile, ACheckpointOnAFastDisk) {
  reader::Meanwhile seen = Seen(0, {{Doing::kRunning, 14}, {Doing::kCheckpoint, 2}});
  seen.run_ns = 100'000'000;
  seen.written = 40 << 20;
  Finding finding = StragglerOf({0});
  ExplainStraggler({seen}, &finding);
  EXPECT_EQ(finding.kind, Kind::kBlockingCheckpoint);
  seen.run_ns = 900'000'000;  // it computes, and writes a log
  finding = StragglerOf({0});
  ExplainStraggler({seen}, &finding);
  EXPECT_EQ(finding.kind, Kind::kStraggler);
}

TEST(Meanwhile, LessThanFourFifthsIsUnattributed) {
  Finding finding = StragglerOf({2});
  ExplainStraggler({Seen(2, {{Doing::kInput, 12}, {Doing::kRunning, 4}})}, &finding);
  EXPECT_EQ(finding.kind, Kind::kStraggler);
  EXPECT_EQ(finding.summary, "It is late.");
  EXPECT_EQ(finding.evidence,
            std::vector<std::string>{"unattributed: of 16 samples taken while the others waited, rank "
                                     "2 reads input in 12, computes on the CPU in 4"});
}

TEST(Meanwhile, WithoutAProcessorWhatElseItDoesIsNoMatter) {
  reader::Meanwhile throttled = Seen(2, {{Doing::kRunning, 10}, {Doing::kAsleep, 6}});
  throttled.throttled_ns = 700'000'000;
  const reader::Meanwhile stopped = Seen(2, {{Doing::kRunning, 11}, {Doing::kStopped, 5}});
  for (const auto& [seen, words] : {std::pair(throttled, "kept from the CPU for 70 % of the time by the limit of its"),
                                    std::pair(stopped, "Meanwhile it is stopped by a signal")}) {
    Finding finding = StragglerOf({2});
    ExplainStraggler({seen}, &finding);
    EXPECT_EQ(finding.kind, Kind::kStraggler);
    EXPECT_NE(finding.summary.find(words), std::string::npos) << finding.summary;
  }
  Finding seldom = StragglerOf({2});
  ExplainStraggler({Seen(2, {{Doing::kRunning, 12}, {Doing::kStopped, 4}})}, &seldom);
  EXPECT_EQ(seldom.summary, "It is late.");
}

TEST(Meanwhile, WhatHasNoNameIsNoCause) {
  Finding finding = StragglerOf({2});
  ExplainStraggler({Seen(2, {{Doing::kOther, 16}})}, &finding);
  EXPECT_EQ(finding.kind, Kind::kStraggler);
  EXPECT_EQ(finding.summary, "It is late.");
  EXPECT_TRUE(finding.evidence.front().starts_with("unattributed: ")) << finding.evidence.front();
}

TEST(Meanwhile, OneWaitIsNotEnough) {
  Finding finding = StragglerOf({2});
  ExplainStraggler({Seen(2, {{Doing::kInput, 4}})}, &finding);
  EXPECT_EQ(finding.kind, Kind::kStraggler);
  EXPECT_EQ(finding.summary, "It is late.");
}

TEST(Meanwhile, TwoThatDoDifferentThings) {
  Finding finding = StragglerOf({1, 2});
  ExplainStraggler({Seen(1, {{Doing::kInput, 16}}), Seen(2, {{Doing::kCheckpoint, 16}})}, &finding);
  EXPECT_EQ(finding.kind, Kind::kStraggler);
  EXPECT_EQ(finding.summary, "It is late.");
}

TEST(Meanwhile, AnotherProcessSaysNothing) {
  Finding finding = StragglerOf({2});
  reader::Meanwhile other = Seen(2, {{Doing::kInput, 16}});
  other.who.start_time = 8;
  ExplainStraggler({other, Seen(3, {{Doing::kInput, 16}})}, &finding);
  EXPECT_EQ(finding.kind, Kind::kStraggler);
  EXPECT_TRUE(finding.evidence.empty());
}

TEST(Meanwhile, WhatKeepsItFromTheProcessor) {
  reader::Meanwhile throttled = Seen(2, {{Doing::kRunning, 16}}), queued = throttled, runs = throttled;
  throttled.throttled_ns = 700'000'000;
  queued.queued_ns = 600'000'000;
  runs.run_ns = 900'000'000;
  for (const auto& [seen, words] :
       {std::pair(throttled, "is kept from the CPU for 70 % of the time by the limit of its control group"),
        std::pair(queued, "is ready to compute and waits for a processor for 60 % of the time"),
        std::pair(runs, "computes on the CPU")}) {
    Finding finding = StragglerOf({2});
    ExplainStraggler({seen}, &finding);
    EXPECT_EQ(finding.kind, Kind::kStraggler);
    EXPECT_NE(finding.summary.find(words), std::string::npos) << finding.summary;
  }
}

// Of 40 samples at random times so many that show it reading.
reader::Meanwhile AtRandom(int rank, int reading, Doing else_doing = Doing::kRunning) {
  reader::Meanwhile seen = Seen(rank, {});
  for (int i = 0; i < 40; ++i) {
    const bool reads = i < reading;
    seen.at_random.push_back({0, reads ? Doing::kInput : else_doing, reads ? "in read" : "", {}});
  }
  return seen;
}

// It reads before the others begin to wait: while they wait it computes, as they did before.
TEST(Meanwhile, WhatItDoesBeforeTheyWaitCounts) {
  Finding finding = StragglerOf({2});
  finding.share_lost = 0.3;
  reader::Meanwhile late = AtRandom(2, 16);
  late.samples = Seen(2, {{Doing::kRunning, 16}}).samples;
  ExplainStraggler({late, AtRandom(0, 1), AtRandom(1, 2)}, &finding);
  EXPECT_EQ(finding.kind, Kind::kStarvedInput);
  EXPECT_EQ(finding.summary, "It is late. It reads input, in read, for 40 % of the time.");
  EXPECT_EQ(finding.evidence.front(),
            "at random times rank 2 reads input in 40 % of 40 samples, and ranks that are not late in 5 % at most");
}

TEST(Meanwhile, WhatOthersDoTooIsNotWhy) {
  for (const int others : {12, 40}) {
    Finding finding = StragglerOf({2});
    finding.share_lost = 0.3;
    ExplainStraggler({AtRandom(2, 16), AtRandom(0, others), AtRandom(1, 2)}, &finding);
    EXPECT_EQ(finding.kind, Kind::kStraggler);
  }
  Finding finding = StragglerOf({2});  // nobody to compare with
  ExplainStraggler({AtRandom(2, 16)}, &finding);
  EXPECT_EQ(finding.kind, Kind::kStraggler);
  finding = StragglerOf({2});  // it loses more than it reads
  finding.share_lost = 0.9;
  ExplainStraggler({AtRandom(2, 16), AtRandom(0, 1)}, &finding);
  EXPECT_EQ(finding.kind, Kind::kStraggler);
}

// cpulimit stops it before the others begin to wait.
TEST(Meanwhile, StopsCountThatNoWaitShows) {
  Finding finding = StragglerOf({2});
  finding.share_lost = 0.3;
  reader::Meanwhile late = AtRandom(2, 0);
  for (std::size_t i = 0; i < 17; ++i) late.at_random[i].doing = Doing::kStopped;
  ExplainStraggler({late, AtRandom(0, 0), AtRandom(1, 0)}, &finding);
  EXPECT_EQ(finding.kind, Kind::kStraggler);
  EXPECT_EQ(finding.summary, "It is late. It is stopped by a signal or a debugger for 42 % of the time.");
}

TEST(Meanwhile, AStoppedRankIsStopped) {
  Finding finding = StragglerOf({2});
  reader::Meanwhile late = AtRandom(2, 16);
  late.samples = Seen(2, {{Doing::kStopped, 16}}).samples;
  ExplainStraggler({late, AtRandom(0, 1)}, &finding);
  EXPECT_EQ(finding.kind, Kind::kStraggler);
  EXPECT_NE(finding.summary.find("is stopped"), std::string::npos);
}

TEST(Meanwhile, AllStarve) {
  const auto found = FindStarvedJob({AtRandom(0, 13), AtRandom(1, 9), AtRandom(2, 14)});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->processes, 3u);
  EXPECT_NEAR(found->share, 0.3, 1e-9);
  EXPECT_EQ(found->words, "in read");
  EXPECT_TRUE(FindStarvedJob({AtRandom(0, 13), AtRandom(1, 3), AtRandom(2, 14)}));  // now it is this one, now that
  EXPECT_FALSE(FindStarvedJob({AtRandom(0, 20), AtRandom(1, 3), AtRandom(2, 3)}));  // one reads more than the others
  EXPECT_FALSE(FindStarvedJob({AtRandom(0, 5), AtRandom(1, 5), AtRandom(2, 5)}));   // they hardly do
  EXPECT_FALSE(FindStarvedJob({AtRandom(0, 20)}));                                  // what do the others do?
  EXPECT_FALSE(FindStarvedJob({}));
}

}  // namespace
}  // namespace ncclwatch::diagnosis
