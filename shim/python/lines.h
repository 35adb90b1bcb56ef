// From which line of Python the calling thread makes its call (NCCLWATCH_SITES=python): the innermost of the program,
// which is neither a package's nor the standard library's. What is found goes into the black box once
// (format/python_site.h), and a record names its entry.
#pragma once

#include <atomic>
#include <cstdint>

#include "ncclwatch/format/python_site.h"
#include "shim/base/thread.h"
#include "shim/black_box/box.h"
#include "shim/python/frames.h"
#include "shim/python/interpreter.h"
#include "watchdog/cpython/origin.h"

namespace ncclwatch::shim {

class PythonLines {
 public:
  PythonLines(const pyframes::Interpreter& interpreter, format::PythonSites* sites, std::uint64_t ticks_per_second)
      : python_(interpreter), sites_(sites), stays_ticks_(ticks_per_second / kStaysPerSecond) {}

  // What goes into the record of a call whose return address is `native`: that, or the number of an entry.
  std::uint64_t PlaceOf(Thread& thread, std::uint64_t native);
  // The interpreter is about to end, and with it the states of threads that it leaves behind.
  void LeaveOtherThreads();
  const format::PythonSite* At(std::uint64_t place) const {
    return place >= 1 && place <= format::kPythonSites ? &sites_->entries[place - 1] : nullptr;
  }

 private:
  // A line at which a thread stands.
  struct Line {
    std::uint64_t code = 0;  // 0: none
    std::uint64_t mark = 0;
    std::int64_t instruction = 0;
    std::int32_t copy = 0;
    cpython::Origin origin{};
    bool operator==(const Line&) const = default;
  };
  // Sets of a line of the processor's cache, read and written without a lock. In a set of places a value lies beside
  // its key mixed with it: a reader who gets halves of two finds another key.
  struct alignas(64) Codes {
    std::atomic<std::uint64_t> known[8] = {};
  };
  struct alignas(64) Places {
    struct {
      std::atomic<std::uint64_t> mixed{0}, value{0};
    } known[4];
  };
  static constexpr unsigned kSetBits = 8;
  static constexpr std::uint64_t kAgain = ~std::uint64_t{0};  // what was found is a backend's
  enum class For : std::uint8_t { kAll, kMainThread, kNone };
  static constexpr int kMostFrames = 256;
  static constexpr int kMostTroubles = 16;
  // So long a line at which the main thread stood stands for it in other threads: 20 us.
  static constexpr std::uint64_t kStaysPerSecond = 50'000;

  // The main thread, as other threads see it.
  struct MainView {
    bool Read(PythonLines* lines);
    bool found = false;
    Line line;
    pyframes::Trail trail;
  };

  // `each` gets a frame, the file of its code and where that is from, beginning with the innermost, until it returns
  // false. False: what was read cannot be a thread's frames.
  template <class Memory, class Each>
  [[gnu::always_inline]] bool Walk(pyframes::Frames<Memory>& frames, std::uint64_t state, Each each) {
    pyframes::Frame frame;
    std::uint64_t at = 0, file = 0;
    if (!frames.Innermost(state, &at)) return false;
    for (int depth = 0; at != 0 && depth < kMostFrames; ++depth, at = frame.previous) {
      if (!frames.Read(at, &frame)) return false;
      if (frame.code == 0) continue;
      if (!frames.FileOf(frame.code, &file)) return false;
      const int origin = OriginOf(frame.code, file);
      if (origin < 0) return false;
      if (!each(frame, file, static_cast<cpython::Origin>(origin))) break;
    }
    return true;
  }
  template <class Memory>
  bool Search(std::uint64_t state, Line* line, pyframes::Trail* trail);
  bool SearchAnew(Thread& thread, std::uint64_t state, Line* line);
  bool SearchMain(Line* line);
  std::uint64_t MainState();
  // -1: its file's name cannot be read.
  int OriginOf(std::uint64_t code, std::uint64_t file);
  int AskOrigin(std::uint64_t code) const;
  void NoteOrigin(std::uint64_t code, std::uint64_t file, cpython::Origin origin);
  // Whether the innermost code of the program is a backend of torch.distributed; if so it counts as a package's now.
  bool SkipBackend(std::uint64_t state);
  bool IsBackend(std::uint64_t code, std::uint64_t caller) const;
  std::uint64_t Find(Thread& thread, std::uint64_t native);
  // `state`: whose frames these are; 0: the main thread's, for another one.
  std::uint64_t Place(const Line& line, std::uint64_t native, std::uint64_t state);
  std::uint64_t NewPlace(const Line& line, std::uint64_t native, std::uint64_t state, std::uint64_t key);
  // 0: not this time.
  std::uint64_t Resolve(const Line& line, std::uint64_t native, bool on_main);
  std::uint64_t Enter(const format::PythonSite& site);
  void Trouble();

  const pyframes::Interpreter python_;
  format::PythonSites* const sites_;
  const std::uint64_t stays_ticks_;
  std::atomic<For> for_{For::kAll};
  std::atomic<bool> several_threads_{false};
  std::atomic<int> troubles_{0};
  std::atomic<std::uint64_t> main_state_{0};
  std::atomic_flag main_busy_ = ATOMIC_FLAG_INIT;
  std::uint64_t main_seen_ = 0;  // ticks; this and the next under main_busy_
  MainView main_;
  std::atomic_flag writing_ = ATOMIC_FLAG_INIT;
  std::uint64_t keys_[format::kPythonSites] = {};  // of the entries, under writing_
  Codes codes_[1 << kSetBits];
  Places places_[1 << kSetBits];
};

// The return address behind a place.
inline std::uint64_t NativeOf(const Box& box, std::uint64_t place) {
  const format::PythonSite* const site = box.python_lines ? box.python_lines->At(place) : nullptr;
  return site ? site->native : place;
}

// For the rest of the process's life, where the settings ask for it and there is a Python.
void StartPythonLines(Box& box, const pyframes::Interpreter& interpreter);

[[gnu::always_inline]] inline std::uint64_t PlaceOf(const Box& box, Thread& thread, std::uint64_t native) {
  if (!box.python_lines) [[likely]]
    return native & box.site_mask;
  return box.python_lines->PlaceOf(thread, native);
}

}  // namespace ncclwatch::shim
