// The heads of stack files: what is read, and that nothing in them can do harm.
#include "core/reader/stacks.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace ncclwatch::reader {
namespace {

constexpr char kFile[] =
    "ncclwatch.stacks/1\n"
    "process pid 4711 start 8800 rank 2 host node7 at_ns 1234567890123\n"
    "state sleeping, all threads\n"
    "where next_batch (train.py:57)\n"
    "where main (train.py:91)\n"
    "where clock_nanosleep (libc.so.6)\n"
    "\n"
    "thread 4711 python\n"
    "where this is no head any more\n";

TEST(Stacks, TheHeadOfAFile) {
  const auto process = ParseProcessStacks(kFile);
  ASSERT_TRUE(process);
  EXPECT_EQ(process->pid, 4711u);
  EXPECT_EQ(process->start_time, 8800u);
  EXPECT_EQ(process->rank, 2);
  EXPECT_EQ(process->host, "node7");
  EXPECT_EQ(process->at_ns, 1234567890123);
  EXPECT_EQ(process->state, std::vector<std::string>{"sleeping, all threads"});
  EXPECT_EQ(process->where, (std::vector<std::string>{"next_batch (train.py:57)", "main (train.py:91)",
                                                      "clock_nanosleep (libc.so.6)"}));
}

TEST(Stacks, WhatIsNotKnownYetIsPassedOver) {
  const auto process = ParseProcessStacks(
      "ncclwatch.stacks/1\nfoo bar\nprocess at_ns 5 colour green start 6 pid 7\nmood good\nwhere f\n");
  ASSERT_TRUE(process);
  EXPECT_EQ(process->pid, 7u);
  EXPECT_EQ(process->rank, -1);
  EXPECT_EQ(process->host, kNoHost);
  EXPECT_EQ(process->where, std::vector<std::string>{"f"});
}

TEST(Stacks, NotSuchAFile) {
  for (const char* text :
       {"", "ncclwatch.stacks/1", "ncclwatch.stacks/2\nprocess pid 1 start 1 at_ns 1\n", "where f\n",
        "ncclwatch.stacks/1\nwhere f\n", "ncclwatch.stacks/1\nprocess pid 0 start 1\n",
        "ncclwatch.stacks/1\nprocess pid 1\n", "ncclwatch.stacks/1\nprocess pid -1 start 1\n",
        "ncclwatch.stacks/1\nprocess pid 99999999999 start 1\n", "ncclwatch.stacks/1\nprocess pid 1x start 1\n",
        "ncclwatch.stacks/1\n\nprocess pid 1 start 1\n"})
    EXPECT_FALSE(ParseProcessStacks(text)) << text;
}

TEST(Stacks, HostileContentIsCleanedAndCut) {
  std::string text = "ncclwatch.stacks/1\nprocess pid 1 start 1\n";
  text += "where " + std::string(1 << 20, 'x') + "\n";
  auto process = ParseProcessStacks(text);
  ASSERT_TRUE(process);
  ASSERT_EQ(process->where.size(), 1u);
  EXPECT_LE(process->where[0].size(), 400u);
  text = "ncclwatch.stacks/1\nprocess pid 1 start 1 host \x1b[31m\nstate \x1b]0;title\x07\nwhere \n";
  for (int i = 0; i < 100; ++i) text += "where f" + std::to_string(i) + "\nstate s\n";
  process = ParseProcessStacks(text);
  ASSERT_TRUE(process);
  EXPECT_EQ(process->host, "?[31m");
  EXPECT_EQ(process->state.front(), "?]0;title?");
  EXPECT_EQ(process->where.size(), kMostWhere);
  EXPECT_EQ(process->where.front(), "f0");
  EXPECT_EQ(process->state.size(), kMostState);
}

TEST(Stacks, AVerdictsStacksReadBackAsTheyWereWritten) {
  VerdictStacks stacks;
  stacks.verdict_at_ns = 77;
  stacks.processes = {*ParseProcessStacks(kFile),
                      *ParseProcessStacks("ncclwatch.stacks/1\nprocess pid 9 start 1\nwhere a  b \x01\n")};
  const std::string text = Format(stacks);
  const auto again = ParseVerdictStacks(text);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->verdict_at_ns, 77);
  ASSERT_EQ(again->processes.size(), 2u);
  EXPECT_EQ(again->processes[0].where, stacks.processes[0].where);
  EXPECT_EQ(again->processes[0].host, "node7");
  EXPECT_EQ(again->processes[1].host, kNoHost);
  EXPECT_EQ(again->processes[1].where, std::vector<std::string>{"a  b ?"});
  EXPECT_EQ(Format(*again), text);
}

TEST(Stacks, ABrokenProcessOfAVerdictTakesNothingFromTheOthers) {
  const auto stacks = ParseVerdictStacks(
      "ncclwatch.verdict_stacks/1\nverdict_at_ns 5\nwhere lost\nprocess pid 1 start 1\nwhere a\nprocess pid x\n"
      "where lost\nprocess pid 2 start 2\nwhere b\n");
  ASSERT_TRUE(stacks);
  ASSERT_EQ(stacks->processes.size(), 2u);
  EXPECT_EQ(stacks->processes[0].where, std::vector<std::string>{"a"});
  EXPECT_EQ(stacks->processes[1].where, std::vector<std::string>{"b"});
  EXPECT_FALSE(ParseVerdictStacks("ncclwatch.verdict_stacks/1\nprocess pid 1 start 1\n"));
  EXPECT_FALSE(ParseVerdictStacks("ncclwatch.stacks/1\nverdict_at_ns 5\n"));
}

TEST(Stacks, FilesThatAreNoFilesAreNotWaitedFor) {
  char name[] = "/tmp/ncclwatch-stacks-XXXXXX";
  const std::string top = mkdtemp(name);
  std::filesystem::create_directories(top + "/stacks");
  EXPECT_FALSE(ReadProcessStacks(descriptors::Directory::Named(top), 4711));
  std::ofstream(top + "/stacks/4711.txt") << kFile;
  EXPECT_TRUE(ReadProcessStacks(descriptors::Directory::Named(top), 4711));
  ASSERT_EQ(mkfifo((top + "/stacks/verdict.txt").c_str(), 0600), 0);
  EXPECT_FALSE(ReadVerdictStacks(descriptors::Directory::Named(top)));
  std::filesystem::remove_all(top);
}

}  // namespace
}  // namespace ncclwatch::reader
