#include "watchdog/descriptors/standard.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace ncclwatch::descriptors {
namespace {

std::string Content(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

class Standard : public ::testing::Test {
 protected:
  Standard() {
    char place[] = "/tmp/ncclwatch-standard-XXXXXX";
    folder_ = mkdtemp(place);
    kept_ = dup(STDERR_FILENO);
  }
  ~Standard() override {
    dup2(kept_, STDERR_FILENO);
    close(kept_);
    RememberStandardFiles();
    std::filesystem::remove_all(folder_);
  }
  // A file of that name gets the number of standard error.
  std::string Replace(const std::string& name) {
    const std::string path = folder_ + "/" + name;
    close(STDERR_FILENO);
    EXPECT_EQ(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600), STDERR_FILENO);
    return path;
  }
  std::string folder_;
  int kept_ = -1;
};

TEST_F(Standard, LinesGoToStandardErrorWhileItIsTheSameFile) {
  const std::string first = Replace("first");
  RememberStandardFiles();
  EXPECT_TRUE(IsAsLoaded(STDERR_FILENO));
  WriteLines("one\n", 100);
  const std::string second = Replace("second");
  EXPECT_FALSE(IsAsLoaded(STDERR_FILENO));
  WriteLines("two\n", 100);
  EXPECT_EQ(Content(first), "one\n");
  EXPECT_EQ(Content(second), "");
}

TEST_F(Standard, WhatWasClosedAtTheStartIsTheHosts) {
  close(STDERR_FILENO);
  RememberStandardFiles();
  EXPECT_FALSE(IsAsLoaded(STDERR_FILENO));
  const std::string file = Replace("checkpoint");
  WriteLines("a line\n", 100);
  EXPECT_EQ(Content(file), "");
}

TEST_F(Standard, APipeWithoutAReaderLosesTheLine) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
  close(ends[1]);
  RememberStandardFiles();
  close(ends[0]);
  WriteLines("lost\n", 100);  // no SIGPIPE
}

}  // namespace
}  // namespace ncclwatch::descriptors
