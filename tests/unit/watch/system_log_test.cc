#include "watchdog/act/system_log.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace ncclwatch::act {
namespace {

class SystemLog : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/ncclwatch-log-XXXXXX";
    top_ = mkdtemp(name);
    path_ = top_ + "/log";
    fd_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path_.c_str(), sizeof address.sun_path - 1);
    ASSERT_EQ(bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  void TearDown() override {
    close(fd_);
    std::filesystem::remove_all(top_);
  }
  std::string Received() const {
    char text[4096];
    const ssize_t got = recv(fd_, text, sizeof text, 0);
    return got < 0 ? "" : std::string(text, static_cast<std::size_t>(got));
  }
  std::string top_, path_;
  int fd_ = -1;
};

TEST_F(SystemLog, GetsOneLineAndNothingThatBreaksIt) {
  TellSystemLog("two\nlines \x1b[31m", path_.c_str());
  EXPECT_EQ(Received(), "<29>ncclwatch[" + std::to_string(getpid()) + "]: two lines  [31m");
  TellSystemLog(std::string(5000, 'x'), path_.c_str());
  EXPECT_LT(Received().size(), 1024u);
}

TEST_F(SystemLog, NobodyWaitsForIt) {
  for (int i = 0; i < 3000; ++i) TellSystemLog("nobody reads", path_.c_str());  // more than any queue holds
  EXPECT_FALSE(Received().empty());
  errno = 7;
  TellSystemLog("nobody listens", (top_ + "/none").c_str());
  EXPECT_EQ(errno, 7);
}

}  // namespace
}  // namespace ncclwatch::act
