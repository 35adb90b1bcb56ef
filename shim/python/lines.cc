#include "shim/python/lines.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <type_traits>

#include "ncclwatch/format/fingerprint.h"
#include "shim/base/clock.h"
#include "shim/base/keep_errno.h"
#include "shim/python/frames.h"
#include "watchdog/cpython/objects.h"

namespace ncclwatch::shim {

using format::Mix;

// The innermost line of the program; if there is none, of a package; if there is none, any. False: what was read cannot
// be a thread's frames.
template <class Memory>
[[gnu::always_inline]] inline bool PythonLines::Search(std::uint64_t state, Line* line, pyframes::Trail* trail) {
  pyframes::Frames<Memory> frames(python_);
  if constexpr (std::is_same_v<Memory, pyframes::Copied>) frames.memory().Follow(trail);
  std::uint64_t file_of_line = 0;
  line->code = 0;
  const auto each = [&](const pyframes::Frame& frame, std::uint64_t file, cpython::Origin origin) {
    if (line->code != 0 && origin <= line->origin) return true;
    *line = {frame.code, 0, frame.instruction, frame.copy, origin};
    file_of_line = file;
    return origin != cpython::Origin::kProgram;
  };
  if (!Walk(frames, state, each)) return false;
  if (line->code == 0) return true;
  pyframes::Code code;
  if (!frames.Read(line->code, &code)) return false;
  line->mark = Mix(line->code ^ code.name << 1, code.lines + static_cast<std::uint64_t>(code.first_line)) +
               frames.Content(file_of_line, code);
  return true;
}

namespace {

// The two lowest bits of an entry are the origin plus one, the others are of the code and its file.
constexpr std::uint64_t kOriginBits = 3;

std::uint64_t CodeKey(std::uint64_t code, std::uint64_t file) {
  return code * 0x9e3779b97f4a7c15ull + file * 0xff51afd7ed558ccdull;
}

// Of a set: the same each time for a key, and another one for most others.
template <class Set>
std::size_t Victim(const Set& set, std::uint64_t key) {
  return (key >> 4) % std::size(set.known);
}

}  // namespace

int PythonLines::OriginOf(std::uint64_t code, std::uint64_t file) {
  const std::uint64_t key = CodeKey(code, file);
  for (const std::atomic<std::uint64_t>& entry : codes_[key >> (64 - kSetBits)].known) {
    const std::uint64_t known = entry.load(std::memory_order_relaxed);
    if ((known ^ key) <= kOriginBits && (known & kOriginBits) != 0) [[likely]]
      return static_cast<int>(known & kOriginBits) - 1;
  }
  const int origin = AskOrigin(code);
  if (origin >= 0) NoteOrigin(code, file, static_cast<cpython::Origin>(origin));
  return origin;
}

[[gnu::cold, gnu::noinline]] void PythonLines::NoteOrigin(std::uint64_t code, std::uint64_t file,
                                                          cpython::Origin origin) {
  const std::uint64_t key = CodeKey(code, file);
  Codes& set = codes_[key >> (64 - kSetBits)];
  std::atomic<std::uint64_t>* room = &set.known[Victim(set, key)];
  for (std::atomic<std::uint64_t>& entry : set.known) {
    const std::uint64_t known = entry.load(std::memory_order_relaxed);
    if (known != 0 && (known ^ key) > kOriginBits) continue;
    room = &entry;
    break;
  }
  room->store((key & ~kOriginBits) | (static_cast<std::uint64_t>(origin) + 1), std::memory_order_relaxed);
}

[[gnu::cold, gnu::noinline]] int PythonLines::AskOrigin(std::uint64_t code) const {
  const KeepErrno keep;
  try {
    pyframes::OwnMemory memory;
    const std::optional<std::string> file = cpython::Objects(&memory, python_.layout).FileOf(code);
    return file ? static_cast<int>(cpython::OriginOf(*file)) : -1;
  } catch (...) {
    return -1;  // no memory
  }
}

std::uint64_t PythonLines::MainState() {
  std::uint64_t state = main_state_.load(std::memory_order_relaxed);
  if (state == 0) main_state_.store(state = pyframes::MainThread(python_), std::memory_order_relaxed);
  return state;
}

void PythonLines::LeaveOtherThreads() {
  constexpr useconds_t kLongerThanAWalk_us = 1000;
  MainState();
  For all = For::kAll;
  if (for_.compare_exchange_strong(all, For::kMainThread) && several_threads_.load()) usleep(kLongerThanAWalk_us);
}

[[gnu::cold, gnu::noinline]] void PythonLines::Trouble() {
  if (troubles_.fetch_add(1, std::memory_order_relaxed) != kMostTroubles) return;
  for_.store(For::kNone, std::memory_order_relaxed);
  sites_->given_up.store(1, std::memory_order_relaxed);
}

// Before memory is trusted, all of a thread's frames are looked at by system calls once.
[[gnu::cold, gnu::noinline]] bool PythonLines::SearchAnew(Thread& thread, std::uint64_t state, Line* line) {
  const KeepErrno keep;
  if (!Search<pyframes::Copied>(state, line, nullptr)) return false;
  thread.python_state = state;
  if (state != MainState()) several_threads_.store(true);
  return true;
}

// The main thread runs on meanwhile: its line counts if its frames are the same afterwards.
bool PythonLines::MainView::Read(PythonLines* lines) {
  const std::uint64_t state = lines->MainState();
  trail.Clear();
  found = state != 0 && lines->Search<pyframes::Copied>(state, &line, &trail) && line.code != 0 &&
          line.origin == cpython::Origin::kProgram && trail.IsUnchanged();
  return found;
}

[[gnu::cold, gnu::noinline]] bool PythonLines::SearchMain(Line* line) {
  const KeepErrno keep;
  if (main_busy_.test_and_set(std::memory_order_acquire)) {
    MainView view;
    const bool found = view.Read(this);
    *line = view.line;
    return found;
  }
  const std::uint64_t now = clock::Ticks();
  if (now - main_seen_ >= stays_ticks_ && !(main_.found && main_.trail.IsUnchanged())) main_.Read(this);
  if (now - main_seen_ >= stays_ticks_) main_seen_ = clock::Ticks();
  *line = main_.line;
  const bool found = main_.found;
  main_busy_.clear(std::memory_order_release);
  return found;
}

std::uint64_t PythonLines::PlaceOf(Thread& thread, std::uint64_t native) {
  constexpr int kMostBackends = 4;  // one inside the other
  for (int i = 0; i < kMostBackends; ++i) {
    if (for_.load(std::memory_order_relaxed) == For::kNone || At(native) || !python_.is_initialized()) break;
    const std::uint64_t place = Find(thread, native);
    if (place != kAgain) [[likely]]
      return place;
  }
  return native;
}

[[gnu::always_inline]] inline std::uint64_t PythonLines::Find(Thread& thread, std::uint64_t native) {
  const auto state = reinterpret_cast<std::uint64_t>(python_.this_thread());
  Line line;
  if (for_.load(std::memory_order_relaxed) != For::kAll && state != main_state_.load()) [[unlikely]]
    return native;
  if (state != 0) {
    const bool read = thread.python_state == state ? Search<pyframes::Trusted>(state, &line, nullptr)
                                                   : SearchAnew(thread, state, &line);
    if (!read) [[unlikely]]
      return Trouble(), native;
  }
  if (line.code != 0 && line.origin == cpython::Origin::kProgram) [[likely]]
    return Place(line, native, state);
  Line main;
  const auto is_main = [&] { return state != 0 && state == main_state_.load(std::memory_order_relaxed); };
  if (!is_main() && SearchMain(&main) && !is_main()) return Place(main, native, 0);
  return line.code != 0 ? Place(line, native, state) : native;
}

std::uint64_t PythonLines::Place(const Line& line, std::uint64_t native, std::uint64_t state) {
  const std::uint64_t instruction = static_cast<std::uint64_t>(line.instruction);
  const std::uint64_t key = Mix(Mix(line.mark, instruction), native) + (state == 0 ? 1 : 0);
  Places& set = places_[key >> (64 - kSetBits)];
  for (const auto& entry : set.known) {
    // Acquire pairs with the release below: who passes the place on has seen its entry.
    const std::uint64_t mixed = entry.mixed.load(std::memory_order_acquire);
    const std::uint64_t value = entry.value.load(std::memory_order_relaxed);
    if ((mixed ^ value) == key && value != 0) [[likely]]
      return value;
  }
  return NewPlace(line, native, state, key);
}

[[gnu::cold, gnu::noinline]] std::uint64_t PythonLines::NewPlace(const Line& line, std::uint64_t native,
                                                                 std::uint64_t state, std::uint64_t key) {
  const KeepErrno keep;
  if (line.origin == cpython::Origin::kProgram && SkipBackend(state != 0 ? state : main_state_.load())) return kAgain;
  const std::uint64_t place = Resolve(line, native, state == 0);
  if (place == 0) return native;
  Places& set = places_[key >> (64 - kSetBits)];
  auto* room = &set.known[Victim(set, key)];
  for (auto& entry : set.known) {
    if (entry.value.load(std::memory_order_relaxed) != 0) continue;
    room = &entry;
    break;
  }
  room->value.store(place, std::memory_order_relaxed);
  room->mixed.store(key ^ place, std::memory_order_release);
  return place;
}

}  // namespace ncclwatch::shim
