// The process's one state: nothing yet, watched, or passing calls through. It lies in a page that the kernel wipes in
// fork and clone children, so that a child starts from nothing without a handler having to run.
#pragma once

#include <atomic>
#include <cstdint>

namespace ncclwatch::shim {

struct Box;

enum class LifeState : std::uint32_t { kUnused = 0, kStarting = 1, kWatched = 2, kPassing = 3 };

struct LifePage {
  std::atomic<Box*> box{nullptr};  // released when whole
  std::atomic<LifeState> state{LifeState::kUnused};
};

extern std::atomic<LifePage*> life_page;

// The process's black box, or null if nothing is recorded (yet, or any more, or in this process).
inline Box* CurrentBox() { return life_page.load(std::memory_order_acquire)->box.load(std::memory_order_acquire); }

// Begins watching at the first call that is recorded, one of `library`. Null: pass through, now and for the rest of the
// process's life: one call that is missing would shift the positions of all later ones. Never throws.
Box* FirstUse(std::uint32_t library);

// Lines bear the rank of the launcher's environment until the settings are read.
void NameLines();

// Notes in the black box that the process is about to end; at most once, and only in the process that owns the box.
// hung_up: for want of its launcher, or because that wants it.
void NoteExit(int status, bool hung_up = false);

}  // namespace ncclwatch::shim
