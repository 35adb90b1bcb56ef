// The watchdog thread of one process: heartbeat, and, while it holds the node's lease, the eyes on all processes of
// the node. Born with all signals blocked; never calls NCCL, CUDA or MPI, never takes a lock of the host's.
#pragma once

#include <memory>
#include <string>

#include "ncclwatch/format/black_box.h"
#include "watchdog/descriptors/directory.h"
#include "watchdog/settings/settings.h"

namespace ncclwatch::watch {

struct Start {
  format::Header* own = nullptr;  // the process's own box, mapped read-write
  std::string own_path;
  int own_guard = -1;                // number of its mapping (reader/guard.h)
  descriptors::Directory directory;  // the run directory
  settings::Settings settings;
  // What only the library in the process can do; null where there is none. Called in threads of the watchdog's.
  int (*abort_communicators)(const char* why) = nullptr;  // ends them (NCCLWATCH_ON_FAULT=abort): how many there were
  std::string (*sample_own_stacks)() = nullptr;           // of all threads (format/sample.h)
};

class Watchdog {
 public:
  // Null if no thread could be made; errno tells.
  static std::unique_ptr<Watchdog> Launch(const Start& start);
  // Asks the thread to end and waits at most 100 ms; after that it is left alone (the host is exiting).
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  struct State;
  Watchdog();
  std::shared_ptr<State> state_;
};

}  // namespace ncclwatch::watch
