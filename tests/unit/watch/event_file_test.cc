#include "watchdog/watch/base/event_file.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace ncclwatch::watch {
namespace {

namespace fs = std::filesystem;

class EventFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char path[] = "/dev/shm/ncclwatch-events-XXXXXX";
    top_ = mkdtemp(path);
    std::strcpy(own_.identity.job, "job");
    context_.own = &own_;
    context_.directory = descriptors::Directory::Own(top_);
  }
  void TearDown() override { fs::remove_all(top_); }

  // Events with long details; so many files of the most bytes.
  std::uint64_t Fill(double files) {
    EventFile file(context_);
    const std::string details = "{\"text\": \"" + std::string(900, 'x') + "\"}";
    const auto lines = static_cast<std::uint64_t>(files * static_cast<double>(kMostEventBytes) / 1000);
    for (std::uint64_t i = 0; i < lines; ++i) file.Write({.type = "checkpoint", .host = "node", .details = details});
    return lines;
  }
  std::string Text(const char* name) const {
    std::ifstream file(top_ + "/" + name);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  static std::uint64_t Lines(const std::string& text) {
    return static_cast<std::uint64_t>(std::count(text.begin(), text.end(), '\n'));
  }

  std::string top_;
  format::Header own_{};
  Context context_;
};

TEST_F(EventFileTest, NeverTakesMoreThanTwoFiles) {
  Fill(5);
  EXPECT_LE(fs::file_size(top_ + "/events.jsonl"), kMostEventBytes);
  EXPECT_LE(fs::file_size(top_ + "/events.1.jsonl"), kMostEventBytes);
  EXPECT_EQ(std::distance(fs::directory_iterator(top_), fs::directory_iterator()), 2);
}

TEST_F(EventFileTest, CountsEveryLineThatItRemoved) {
  const std::uint64_t written = Fill(5);
  const std::string newest = Text("events.jsonl"), older = Text("events.1.jsonl");
  ASSERT_NE(newest.find("\"events_dropped\""), std::string::npos);
  const std::size_t at = newest.find("\"dropped\":");
  ASSERT_LT(at, newest.find('\n')) << "in the first line";
  const std::uint64_t dropped = std::stoull(newest.substr(at + 10));
  const std::uint64_t counts = 1 + (older.find("\"events_dropped\"") != std::string::npos ? 1 : 0);
  EXPECT_EQ(dropped + Lines(newest) + Lines(older) - counts, written);
}

TEST_F(EventFileTest, FewEventsStayInOneFile) {
  EXPECT_EQ(Lines((Fill(0.9), Text("events.jsonl"))), static_cast<std::uint64_t>(0.9 * kMostEventBytes / 1000));
  EXPECT_FALSE(fs::exists(top_ + "/events.1.jsonl"));
}

TEST_F(EventFileTest, ProcessesThatShareItLoseNothingUncounted) {
  constexpr int kProcesses = 4;
  for (int i = 0; i < kProcesses; ++i)
    if (fork() == 0) {
      Fill(1.5);
      _exit(0);
    }
  for (int i = 0; i < kProcesses; ++i) {
    int status = 0;
    wait(&status);
    EXPECT_EQ(status, 0);
  }
  const std::string newest = Text("events.jsonl"), older = Text("events.1.jsonl");
  EXPECT_LE(newest.size(), kMostEventBytes);
  // A process that had the file open while another renamed it wrote its line to the older one.
  EXPECT_LE(older.size(), kMostEventBytes + kProcesses * 1100);
}

TEST_F(EventFileTest, LimitOnTheSizeOfFilesEndsNobody) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit{5000, 5000};
    setrlimit(RLIMIT_FSIZE, &limit);
    Fill(0.01);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_LE(fs::file_size(top_ + "/events.jsonl"), 5000u);
}

}  // namespace
}  // namespace ncclwatch::watch
