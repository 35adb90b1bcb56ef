// The file of what stragglers do meanwhile: what is read, and that nothing in it can do harm.
#include "core/reader/beside/meanwhile.h"

#include <gtest/gtest.h>

namespace ncclwatch::reader {
namespace {

constexpr char kMeanwhileFile[] =
    "ncclwatch.meanwhile/1\n"
    "process pid 4711 start 8800 rank 2 host node7 at_ns 1234567890123\n"
    "times waited 5000 run 100 queued 20 throttled 3 faults 4 written 6\n"
    "sample wait 0 doing input\n"
    "words in read of /data/17.bin (nfs4, mounted on /data)\n"
    "where next_batch (train.py:57)\n"
    "where in read (libc.so.6)\n"
    "sample wait 1 doing running\n"
    "random doing input\n"
    "words in read of /data/18.bin\n"
    "random doing call\n";

TEST(Meanwhile, OneProcess) {
  const auto all = ParseMeanwhile(kMeanwhileFile);
  ASSERT_TRUE(all);
  ASSERT_EQ(all->size(), 1u);
  const Meanwhile& one = all->front();
  EXPECT_EQ(one.who.pid, 4711u);
  EXPECT_EQ(one.who.start_time, 8800u);
  EXPECT_EQ(one.who.host, "node7");
  EXPECT_EQ(one.waited_ns, 5000);
  EXPECT_EQ(one.run_ns, 100);
  EXPECT_EQ(one.queued_ns, 20);
  EXPECT_EQ(one.throttled_ns, 3);
  EXPECT_EQ(one.major_faults, 4u);
  EXPECT_EQ(one.written, 6u);
  ASSERT_EQ(one.samples.size(), 2u);
  EXPECT_EQ(one.samples[0].doing, Doing::kInput);
  EXPECT_EQ(one.samples[0].words, "in read of /data/17.bin (nfs4, mounted on /data)");
  EXPECT_EQ(one.samples[0].where, (std::vector<std::string>{"next_batch (train.py:57)", "in read (libc.so.6)"}));
  EXPECT_EQ(one.samples[1].doing, Doing::kRunning);
  EXPECT_EQ(one.samples[1].wait, 1u);
  ASSERT_EQ(one.at_random.size(), 2u);
  EXPECT_EQ(one.at_random[0].doing, Doing::kInput);
  EXPECT_EQ(one.at_random[0].words, "in read of /data/18.bin");
  EXPECT_EQ(one.at_random[1].doing, Doing::kCall);
  EXPECT_EQ(Format(*all), kMeanwhileFile);
}

TEST(Meanwhile, NotSuchAFile) {
  EXPECT_FALSE(ParseMeanwhile(""));
  EXPECT_FALSE(ParseMeanwhile("ncclwatch.meanwhile/2\nprocess pid 1 start 1\n"));
  EXPECT_TRUE(ReadMeanwhile(descriptors::Directory::Named("/nowhere")).empty());
}

TEST(Meanwhile, WhatIsNotKnownIsPassedOverAndEverythingIsBounded) {
  std::string text =
      "ncclwatch.meanwhile/1\nsample wait 0 doing input\nprocess pid 1 start 0\nsample wait 0 doing input\n"
      "process pid 1 start 1\nmood good\ntimes run x waited 7\nwhere early\nsample wait -1 doing knitting\n";
  for (int i = 0; i < 1000; ++i) text += "where f\x1b\n";
  for (int i = 0; i < 1000; ++i) text += "sample wait 1 doing lock\n";
  const auto all = ParseMeanwhile(text);
  ASSERT_TRUE(all);
  ASSERT_EQ(all->size(), 1u);
  const Meanwhile& one = all->front();
  EXPECT_EQ(one.waited_ns, 7);
  EXPECT_EQ(one.samples.front().doing, Doing::kOther);
  EXPECT_EQ(one.samples.front().where, std::vector<std::string>(kMostWhere, "f?"));
  EXPECT_LT(one.samples.size(), 1000u);
}

}  // namespace
}  // namespace ncclwatch::reader
