#include "analyzer/run/start_ranks.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "analyzer/files/descriptor.h"
#include "analyzer/run/job_process.h"
#include "watchdog/act/end_job.h"

namespace ncclwatch::analyzer {
namespace {

// Rank 0 listens one above MASTER_PORT, as under torchrun, whose agent keeps that port. The range lies below the one
// from which the kernel takes ports for outgoing connections.
int FreePort() {
  constexpr int kFirst = 10000, kPorts = 20000, kTries = 1000, kStride = 101;
  for (int i = 0; i < kTries; ++i) {
    const int port = kFirst + (getpid() * 37 + i * kStride) % kPorts;
    const Descriptor probe(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<in_port_t>(port + 1));
    if (bind(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return port;
  }
  return kFirst;
}

void Become(const std::vector<std::string>& command, int rank, int ranks, int port, pid_t launcher) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != launcher) _exit(1);  // it has ended already
  const auto set = [](const char* name, const std::string& value) { setenv(name, value.c_str(), 1); };
  for (const char* name : {"RANK", "LOCAL_RANK"}) set(name, fmt::format("{}", rank));
  for (const char* name : {"WORLD_SIZE", "LOCAL_WORLD_SIZE"}) set(name, fmt::format("{}", ranks));
  set("GROUP_RANK", "0");
  set("MASTER_ADDR", "127.0.0.1");
  set("MASTER_PORT", fmt::format("{}", port));
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execv(arguments[0], arguments.data());
  _exit(StatusOfFailure(errno));
}

constexpr int kLooks = 30, kLook_us = 100'000;

}  // namespace

int StartRanks(const std::vector<std::string>& command, int ranks, absl::Duration at_most) {
  const pid_t self = getpid();
  const int port = FreePort();
  alarm(static_cast<unsigned>(absl::ToInt64Seconds(at_most)));
  int failed = 0, started = 0;
  for (int rank = 0; rank < ranks && failed == 0; ++rank) {
    const pid_t child = fork();
    if (child == 0) Become(command, rank, ranks, port, self);
    child > 0 ? static_cast<void>(++started) : static_cast<void>(failed = 1);
  }
  if (failed != 0) return failed;  // whoever was started ends with this process
  for (int status = 0, looks = 0; started > 0;) {
    // What ncclwatch ends is over, also for ranks that it does not watch yet: they end with this process.
    const bool ended = failed == act::kEndedByUs;
    const pid_t child = waitpid(-1, &status, ended ? WNOHANG : 0);
    if (child < 0 && errno != EINTR) break;
    if (child > 0) {
      --started;
      if (failed == 0) failed = StatusOf(status);
    } else if (ended) {
      if (++looks > kLooks) break;
      usleep(kLook_us);
    }
  }
  return failed;
}

}  // namespace ncclwatch::analyzer
