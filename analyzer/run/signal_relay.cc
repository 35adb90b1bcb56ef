#include "analyzer/run/signal_relay.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

namespace ncclwatch::analyzer {
namespace {

constexpr int kRelayed[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH, SIGTSTP, SIGCONT};

// A signal to a group reaches its members within microseconds; the witness must then be scheduled once.
constexpr int kWitnessWaitMs = 50;

[[noreturn]] void Witness(int say, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(0);
  prctl(PR_SET_NAME, "ncclwatch-sig");
  // Nothing of the job's shall stay open because of the witness.
  for (int fd = 0; fd < 1024; ++fd)
    if (fd != say) close(fd);
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  for (;;) {
    const int signal = sigwaitinfo(&all, nullptr);
    if (signal < 0) continue;
    const auto byte = static_cast<unsigned char>(signal);
    if (write(say, &byte, 1) != 1 && errno != EINTR && errno != EAGAIN) _exit(0);
  }
}

}  // namespace

SignalRelay::SignalRelay() {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;  // an ignored SIGCHLD would lose the job's status
  sigaction(SIGCHLD, &action, &child_action_before_);
  action.sa_handler = SIG_IGN;  // a closed stderr must not end us before the job
  sigaction(SIGPIPE, &action, &pipe_action_before_);
  sigset_t mask;
  sigemptyset(&mask);
  for (int signal : kRelayed) sigaddset(&mask, signal);
  sigaddset(&mask, SIGCHLD);
  sigprocmask(SIG_BLOCK, &mask, &mask_before_);
  descriptor_ = Descriptor(signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK));
  StartWitness();
}

SignalRelay::~SignalRelay() {
  if (witness_ > 0) {
    kill(witness_, SIGKILL);
    waitpid(witness_, nullptr, 0);
  }
}

void SignalRelay::StartWitness() {
  int pipe[2];
  if (pipe2(pipe, O_CLOEXEC | O_NONBLOCK) != 0) return;
  const pid_t self = getpid();
  witness_ = fork();
  if (witness_ == 0) Witness(pipe[1], self);
  close(pipe[1]);
  witness_says_ = Descriptor(pipe[0]);
}

bool SignalRelay::WitnessGot(int signal) {
  if (witness_ <= 0) return false;
  for (;;) {
    unsigned char byte = 0;
    const ssize_t n = read(witness_says_.get(), &byte, 1);
    if (n == 1 && byte == signal) return true;
    if (n == 1 || (n < 0 && errno == EINTR)) continue;
    pollfd wait{witness_says_.get(), POLLIN, 0};
    if (n == 0 || poll(&wait, 1, kWitnessWaitMs) <= 0) return false;
  }
}

void SignalRelay::Relay(pid_t job) {
  signalfd_siginfo info{};
  while (read(descriptor_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) RelayOne(info, job);
}

void SignalRelay::RelayOne(const signalfd_siginfo& info, pid_t job) {
  const int signal = static_cast<int>(info.ssi_signo);
  if (signal == SIGCHLD || job <= 0) return;
  // Asked in any case, so that an old word of the witness is never taken for a new one.
  const bool to_group = WitnessGot(signal) && getpgid(job) == getpgrp();
  const bool from_job = info.ssi_code <= 0 && static_cast<pid_t>(info.ssi_pid) == job;
  if (!to_group && !from_job) kill(job, signal);
  if (signal == SIGTSTP) raise(SIGSTOP);  // the shell sees the job stopped; SIGCONT comes through descriptor()
}

}  // namespace ncclwatch::analyzer
