// Where the exchange's descriptors live: out of the host's way and out of its fork children. A child that inherited a
// listening socket would keep the address of a dead leader taken, and connections that nobody reads open.
//
// The thread leaves the table that it shares with the host for one of its own, which holds the exchange's descriptors
// only. Then hosts may close all descriptors that they see, and children get none of ours. Where the kernel or a
// sandbox refuses that (before Linux 5.9 and without unshare(2)), they lie at high numbers in the host's table, and a
// handler of fork() closes them in the child.
#pragma once

namespace ncclwatch::exchange {

class Descriptors {
 public:
  // For a thread that keeps the table it has.
  Descriptors() = default;
  // Gives the calling thread a table of its own. wake: the reading end of a pipe; *own_wake is the same pipe, readable
  // in the new table, or -1. False: refused, the table stays.
  bool GoPrivate(int wake, int* own_wake);

  // Takes a descriptor that was just made with O_CLOEXEC; -1 stays -1. Returns its number from now on.
  int Keep(int fd);
  void Close(int fd);

 private:
  bool private_ = false;
};

}  // namespace ncclwatch::exchange
