// Hands on to the job the signals that were meant for it and that it has not got anyway.
//
// The job is in our process group: what the terminal sends (Ctrl-C, Ctrl-Z, a resized window) and what is sent to the
// whole group it gets by itself, and a second copy could do harm (a second SIGTERM interrupts torchrun while it ends
// its workers). So what the kernel sent is not handed on, and for what a process sent a witness tells: a small child
// of ours in the same group that does nothing but to wait for signals. What it got too was sent to the group.
#pragma once

#include <sys/signalfd.h>
#include <sys/types.h>

#include <csignal>

#include "analyzer/files/descriptor.h"

namespace ncclwatch::analyzer {

class SignalRelay {
 public:
  // From here on the signals are blocked in this process and wait in descriptor().
  SignalRelay();
  ~SignalRelay();
  SignalRelay(const SignalRelay&) = delete;
  SignalRelay& operator=(const SignalRelay&) = delete;

  // As this process found them: for the job.
  const sigset_t& mask_before() const { return mask_before_; }
  const struct sigaction& child_action_before() const { return child_action_before_; }
  const struct sigaction& pipe_action_before() const { return pipe_action_before_; }

  int descriptor() const { return descriptor_.get(); }
  // Takes what waits in descriptor(). Stops this process too where the terminal stopped the job. With job 0, when it
  // has ended, drops what waits.
  void Relay(pid_t job);

 private:
  void StartWitness();
  bool WitnessGot(int signal);
  void RelayOne(const signalfd_siginfo& info, pid_t job);

  sigset_t mask_before_{};
  struct sigaction child_action_before_ {};
  struct sigaction pipe_action_before_ {};
  Descriptor descriptor_;
  pid_t witness_ = -1;
  Descriptor witness_says_;  // one byte a signal
};

}  // namespace ncclwatch::analyzer
