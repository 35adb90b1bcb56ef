// Counts the signals that reach it: writes "ready", then one line "NAME n" for each, and ends with status 0 when a line
// comes on standard input or standard input ends, telling "end" first.
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <map>

int main() {
  sigset_t mask;
  sigfillset(&mask);
  sigdelset(&mask, SIGTSTP);  // stops this program, as it would any other
  sigprocmask(SIG_BLOCK, &mask, nullptr);
  const int signals = signalfd(-1, &mask, SFD_CLOEXEC);
  std::map<int, int> counts;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  std::puts("ready");
  for (;;) {
    pollfd polled[2] = {{signals, POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
    if (poll(polled, 2, -1) < 0) continue;
    if (polled[0].revents) {
      signalfd_siginfo info{};
      if (read(signals, &info, sizeof info) != static_cast<ssize_t>(sizeof info)) continue;
      const int signal = static_cast<int>(info.ssi_signo);
      std::printf("%s %d\n", sigabbrev_np(signal), ++counts[signal]);
    } else if (polled[1].revents) {
      std::puts("end");
      return 0;
    }
  }
}
