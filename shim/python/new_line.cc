// A line from which the first call is made: whether it is the program's, and its entry in the black box.
#include <algorithm>
#include <cstring>
#include <new>
#include <optional>
#include <string>

#include "ncclwatch/format/fingerprint.h"
#include "shim/base/clock.h"
#include "shim/python/lines.h"
#include "watchdog/cpython/objects.h"

namespace ncclwatch::shim {

using format::Mix;

// A walk to the first frame of a package behind those of the program. Between these the standard library may stand, as
// contextlib does where a backend's context manager ends a group.
bool PythonLines::SkipBackend(std::uint64_t state) {
  constexpr std::size_t kMost = 16;  // functions of a backend that are under way
  struct {
    std::uint64_t code, file;
  } own[kMost];
  std::size_t count = 0;
  pyframes::Frames<pyframes::Copied> frames(python_);
  pyframes::Trail trail;
  frames.memory().Follow(&trail);
  std::uint64_t caller = 0;
  bool too_many = false;
  const auto each = [&](const pyframes::Frame& frame, std::uint64_t file, cpython::Origin origin) {
    if (origin == cpython::Origin::kProgram) {
      too_many = count == kMost;
      if (too_many) return false;
      own[count++] = {frame.code, file};
      caller = 0;
    } else if (count > 0) {
      caller = frame.code;
      return origin == cpython::Origin::kStandard;
    }
    return true;
  };
  if (!Walk(frames, state, each) || too_many) return false;
  if (count == 0 || !IsBackend(own[count - 1].code, caller) || !trail.IsUnchanged()) return false;
  for (std::size_t i = 0; i < count; ++i) NoteOrigin(own[i].code, own[i].file, cpython::Origin::kPackage);
  return true;
}

bool PythonLines::IsBackend(std::uint64_t code, std::uint64_t caller) const {
  try {
    pyframes::OwnMemory memory;
    cpython::Objects objects(&memory, python_.layout);
    const std::optional<std::string> file = caller == 0 ? std::string() : objects.FileOf(caller);
    const cpython::Code* const called = objects.CodeAt(code);
    if (!called || !file) return false;
    return cpython::IsBackend(called->function, *file);
  } catch (...) {
    return false;  // no memory
  }
}

namespace {

// Without its beginning if it is too long.
template <std::size_t size>
void PutEnd(const std::string& text, char (&to)[size]) {
  const std::size_t bytes = std::min(text.size(), size - 1);
  std::memcpy(to, text.data() + (text.size() - bytes), bytes);
}

template <std::size_t size>
std::uint64_t HashOf(const char (&text)[size]) {
  std::uint64_t hash = 0;
  for (const char letter : text) hash = (hash ^ static_cast<std::uint8_t>(letter)) * 0x100000001b3ull;
  return hash;
}

}  // namespace

// Now, while a frame keeps the code alive; later its address may be another's. Of the main thread, whose frames do not
// wait, what was read counts only if it still stands there afterwards.
std::uint64_t PythonLines::Resolve(const Line& line, std::uint64_t native, bool on_main) {
  try {
    pyframes::OwnMemory memory;
    cpython::Objects objects(&memory, python_.layout);
    const cpython::Code* const code = objects.CodeAt(line.code);
    if (!code || code->file.empty()) return native;
    format::PythonSite site{};
    site.native = native;
    site.line = objects.LineOf(line.code, *code, line.instruction, line.copy);
    site.on_main_thread = on_main;
    PutEnd(code->file, site.file);
    std::memcpy(site.function, code->function.data(), std::min(code->function.size(), sizeof site.function - 1));
    MainView again;
    if (on_main && !(again.Read(this) && again.line == line)) return 0;
    return Enter(site);
  } catch (...) {
    return 0;  // no memory
  }
}

std::uint64_t PythonLines::Enter(const format::PythonSite& site) {
  const std::uint64_t key = Mix(Mix(HashOf(site.file), HashOf(site.function)),
                                Mix(site.native, static_cast<std::uint64_t>(site.line) << 1 | site.on_main_thread));
  if (writing_.test_and_set(std::memory_order_acquire)) return 0;
  const std::uint32_t used = sites_->used.load(std::memory_order_relaxed);
  std::uint32_t at = 0;
  while (at < used && keys_[at] != key) ++at;
  if (at == used && used < format::kPythonSites) {
    keys_[at] = key;
    sites_->entries[at] = site;
    // Pairs with the readers' acquire: who sees the count sees the entry.
    sites_->used.store(used + 1, std::memory_order_release);
  }
  writing_.clear(std::memory_order_release);
  return at < format::kPythonSites ? at + 1 : site.native;
}

void StartPythonLines(Box& box, const pyframes::Interpreter& interpreter) {
  constexpr double kNsOfSecond = 1e9;
  format::PythonSites* const sites = format::OwnPythonSites(box.header);
  if (!sites) return;
  const double rate = clock::uses_counter ? box.header->clock.anchors[0].ns_per_tick : 1.0;
  // Never freed, as the box.
  box.python_lines = new (std::nothrow) PythonLines(interpreter, sites, static_cast<std::uint64_t>(kNsOfSecond / rate));
}

}  // namespace ncclwatch::shim
