#include "watchdog/log/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "watchdog/descriptors/standard.h"

namespace ncclwatch::log {
namespace {

std::string Content(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

int CountLines(const std::string& text) { return static_cast<int>(std::count(text.begin(), text.end(), '\n')); }

// Standard error is a file, and there is a run directory.
class Log : public ::testing::Test {
 protected:
  Log() {
    char place[] = "/tmp/ncclwatch-log-XXXXXX";
    folder_ = mkdtemp(place);
    std::filesystem::create_directory(folder_ + "/run");
    std::filesystem::permissions(folder_ + "/run", std::filesystem::perms::owner_all);
    kept_ = dup(STDERR_FILENO);
    PutIntoStderr(open((folder_ + "/stderr").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600));
    descriptors::RememberStandardFiles();
    SetLevel(Level::kWarn);
    SetRank(3);
    KeepIn(descriptors::Directory::Own(folder_ + "/run"));
  }
  ~Log() override {
    PutIntoStderr(kept_);
    descriptors::RememberStandardFiles();
    KeepIn({});
    std::filesystem::remove_all(folder_);
  }
  static void PutIntoStderr(int fd) {
    dup2(fd, STDERR_FILENO);
    close(fd);
  }
  std::string Said() const { return Content(folder_ + "/stderr"); }
  std::string Kept() const { return Content(folder_ + "/run/" + kFile); }
  std::string folder_;
  int kept_ = -1;
};

TEST_F(Log, LevelsBoundWhatIsSaidAndNotWhatIsKept) {
  Error("an error");
  Warn("a warning");
  Info("information");
  Debug("{} details", 7);
  EXPECT_EQ(Said(), "[ncclwatch rank 3] an error\n[ncclwatch rank 3] a warning\n");
  EXPECT_EQ(CountLines(Kept()), 4);
  SetLevel(Level::kOff);
  Error("a second error");
  EXPECT_EQ(CountLines(Said()), 2);
  SetLevel(Level::kDebug);
  Debug("more details");
  EXPECT_EQ(CountLines(Said()), 3);
  EXPECT_EQ(CountLines(Kept()), 6);
}

TEST_F(Log, ALineOfTheFileBeginsWithTimeProcessAndLevel) {
  Debug("{} of {}", 1, "two");
  const std::regex line(
      "\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z pid (\\d+) debug \\[ncclwatch rank 3\\] 1 of two\n");
  std::smatch match;
  const std::string kept = Kept();
  ASSERT_TRUE(std::regex_match(kept, match, line)) << kept;
  EXPECT_EQ(match[1], std::to_string(getpid()));
}

TEST_F(Log, EachLineOfATextHasAPrefixAndNothingSteersATerminal) {
  host::Error("one\ntwo {}", "\x1b[2J");
  EXPECT_EQ(Said(), "[ncclwatch rank 3] one\n[ncclwatch rank 3] two ?[2J\n");
  EXPECT_EQ(CountLines(Kept()), 2);
  SetRank(-1);
  Warn("without a rank");
  EXPECT_NE(Said().find("[ncclwatch rank ?] without a rank\n"), std::string::npos);
}

TEST_F(Log, AHostThatHasReplacedItsStderrFindsNoLineInIt) {
  PutIntoStderr(open((folder_ + "/checkpoint").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600));
  Error("a line");
  EXPECT_EQ(Content(folder_ + "/checkpoint"), "");
  EXPECT_EQ(Said(), "");
  EXPECT_EQ(CountLines(Kept()), 1);
}

TEST_F(Log, ALinkInPlaceOfTheFileIsNotFollowed) {
  const std::string other = folder_ + "/other";
  ASSERT_EQ(symlink(other.c_str(), (folder_ + "/run/" + kFile).c_str()), 0);
  Error("a line");
  EXPECT_FALSE(std::filesystem::exists(other));
  EXPECT_EQ(CountLines(Said()), 1);
}

TEST_F(Log, NobodyReadsThePipeAndNobodyWaitsForLong) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_NONBLOCK), 0);
  PutIntoStderr(dup(ends[1]));
  descriptors::RememberStandardFiles();
  const std::string much(4096, 'x');
  while (write(ends[1], much.data(), much.size()) > 0) continue;
  host::Error("a line");  // a pipe without room would hold the test up for ever
  close(ends[0]);
  Error("another line");  // no SIGPIPE
  EXPECT_EQ(CountLines(Kept()), 2);
}

TEST_F(Log, TheFileIsBoundAndTheNewestLinesStay) {
  const std::string text(1000, 'x');
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&text] {
      for (int line = 0; line < 700; ++line) Debug("{}", text);
    });
  for (std::thread& thread : threads) thread.join();
  Debug("the last one");
  constexpr std::uintmax_t kMost = (1 << 20) + 4 * 1100;
  EXPECT_LE(std::filesystem::file_size(folder_ + "/run/" + kFile), kMost);
  EXPECT_LE(std::filesystem::file_size(folder_ + "/run/" + kOlderFile), kMost);
  EXPECT_GT(std::filesystem::file_size(folder_ + "/run/" + kOlderFile), kMost / 2);
  EXPECT_NE(Kept().find("the last one\n"), std::string::npos);
}

TEST_F(Log, ALimitOfFileSizesEndsNobody) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit{100, 100};
    setrlimit(RLIMIT_FSIZE, &limit);
    for (int i = 0; i < 10; ++i) Debug("a line of the file");
    _exit(0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(CountLines(Kept()), 1);
}

TEST_F(Log, AChildOfForkLogsWhateverThreadsDidThen) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&stop] {
      while (!stop) Debug("a thread of the parent's");
    });
  for (int i = 0; i < 100; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      Debug("a child");
      _exit(0);
    }
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace ncclwatch::log
