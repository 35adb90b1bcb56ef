#include "analyzer/jobs/signals.h"

#include <csignal>
#include <cstdint>

#include "core/reader/guard.h"

namespace ncclwatch::analyzer {
namespace {

volatile std::sig_atomic_t ended = 0;
void End(int) { ended = 1; }

void Mend(int, siginfo_t* info, void*) {
  if (reader::guard::Mend(reinterpret_cast<std::uintptr_t>(info->si_addr)) >= 0) return;
  signal(SIGBUS, SIG_DFL);
}

}  // namespace

void CatchSignals() {
  struct sigaction mend {};
  mend.sa_sigaction = Mend;
  mend.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &mend, nullptr);
  reader::guard::Arm();
  struct sigaction action {};
  action.sa_handler = End;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool Ended() { return ended != 0; }

}  // namespace ncclwatch::analyzer
