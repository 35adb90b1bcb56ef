#include "shim/base/process.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <new>

#include "shim/base/thread.h"
#include "shim/black_box/box.h"
#include "shim/process/begin.h"
#include "watchdog/log/log.h"

namespace ncclwatch::shim {

thread_local constinit Thread current_thread __attribute__((tls_model("initial-exec"))) = {};

namespace {

constinit LifePage before_first_use;

// Other threads wait this long for the one that makes the black box; then nobody in the process is watched.
constexpr int kStartPatience = 10000;
constexpr long kStartStep_ns = 200'000;

thread_local constinit bool starting __attribute__((tls_model("initial-exec"))) = false;

void WipeInChild() { new (life_page.load(std::memory_order_relaxed)) LifePage; }

LifePage* NewPage() {
  void* memory = mmap(nullptr, static_cast<std::size_t>(sysconf(_SC_PAGESIZE)), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    LifePage* const known = life_page.load(std::memory_order_acquire);
    if (known == &before_first_use) known->state.store(LifeState::kPassing, std::memory_order_release);
    return known;
  }
  LifePage* page = new (memory) LifePage;
  LifePage* expected = &before_first_use;
  if (!life_page.compare_exchange_strong(expected, page, std::memory_order_acq_rel)) {
    munmap(memory, static_cast<std::size_t>(sysconf(_SC_PAGESIZE)));
    return expected;
  }
  // Kernels before 4.14 do not know it: then at least children by fork() are told.
  if (madvise(memory, static_cast<std::size_t>(sysconf(_SC_PAGESIZE)), MADV_WIPEONFORK) != 0)
    pthread_atfork(nullptr, nullptr, WipeInChild);
  return page;
}

// The box comes before the state: who finds kWatched finds it too. Until the state says so, it may be taken back with
// what some thread has written to it, since no reader has seen it.
bool Decide(Box* box) {
  LifePage& page = *life_page.load(std::memory_order_relaxed);
  page.box.store(box, std::memory_order_release);
  LifeState state = LifeState::kStarting;
  if (page.state.compare_exchange_strong(state, LifeState::kWatched, std::memory_order_acq_rel)) return true;
  page.box.store(nullptr, std::memory_order_release);
  return false;
}

Box* Begun(LifePage& page, std::uint32_t library) {
  starting = true;
  Box* box = nullptr;
  try {
    box = Begin(library, Decide);
  } catch (...) {
    // Once it is watched, only the watchdog can be missing.
    box = page.box.load(std::memory_order_relaxed);
    log::host::Error("{}", box ? "no watchdog thread: out of memory" : "not watching: out of memory");
  }
  starting = false;
  if (box) return box;
  page.box.store(nullptr, std::memory_order_release);
  page.state.store(LifeState::kPassing, std::memory_order_release);
  return nullptr;
}

// For the thread that makes the box. Null: this call is not recorded, and so none of the process ever will be.
Box* Awaited(LifePage& page) {
  for (int i = 0; i < kStartPatience && page.state.load(std::memory_order_acquire) == LifeState::kStarting; ++i) {
    const timespec step{0, kStartStep_ns};
    nanosleep(&step, nullptr);
  }
  LifeState state = LifeState::kStarting;
  if (!page.state.compare_exchange_strong(state, LifeState::kPassing, std::memory_order_acq_rel))
    return page.box.load(std::memory_order_acquire);
  log::host::Error("not watching: making the black box takes too long, and calls do not wait for it");
  return nullptr;
}

}  // namespace

std::atomic<LifePage*> life_page{&before_first_use};

Box* FirstUse(std::uint32_t library) {
  LifePage* page = life_page.load(std::memory_order_acquire);
  if (page == &before_first_use && page->state.load(std::memory_order_acquire) == LifeState::kUnused) page = NewPage();
  if (starting) return nullptr;
  const int saved = errno;
  LifeState state = LifeState::kUnused;
  Box* box = nullptr;
  if (page->state.compare_exchange_strong(state, LifeState::kStarting, std::memory_order_acq_rel)) {
    box = Begun(*page, library);
  } else if (state != LifeState::kPassing) {
    box = Awaited(*page);
  }
  errno = saved;
  return box;
}

void NameLines() {
  const char* rank = nullptr;
  for (const char* name : {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"})
    if (!rank) rank = std::getenv(name);
  log::SetRank(rank ? static_cast<std::int32_t>(std::strtol(rank, nullptr, 10)) : format::kNoRank);
}

}  // namespace ncclwatch::shim
