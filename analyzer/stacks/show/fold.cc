#include "analyzer/stacks/show/fold.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <string_view>

#include "core/text/printable.h"

namespace ncclwatch::stacks {
namespace {

struct Known {
  std::string_view prefix;  // of the file's name
  std::string_view name;    // in what is printed
  Group group;
};
// The first that fits.
constexpr Known kKnown[] = {
    {"libncclwatch", "libncclwatch", Group::kOurs},
    {"libnccl", "libnccl", Group::kLibrary},
    {"libcudart", "libcudart", Group::kLibrary},
    {"libcudnn", "libcudnn", Group::kLibrary},
    {"libcuda.so", "libcuda", Group::kLibrary},
    {"libcublas", "libcublas", Group::kLibrary},
    {"libcusparse", "libcusparse", Group::kLibrary},
    {"libcufft", "libcufft", Group::kLibrary},
    {"libtorch", "libtorch", Group::kLibrary},
    {"libc10", "libtorch", Group::kLibrary},
    {"libpython", "python", Group::kPython},
    {"python3", "python", Group::kPython},
    {"libc.so", "libc", Group::kSystem},
    {"libc-2.", "libc", Group::kSystem},
    {"libpthread", "libc", Group::kSystem},
    {"ld-linux", "libc", Group::kSystem},
    {"ld-musl", "libc", Group::kSystem},
    {"[vdso]", "libc", Group::kSystem},
};

// Where threads and programs begin.
constexpr std::array<std::string_view, 10> kStarts = {"_start",
                                                      "start_thread",
                                                      "clone",
                                                      "clone3",
                                                      "__clone",
                                                      "__clone3",
                                                      "__libc_start_main",
                                                      "__libc_start_main_impl",
                                                      "__libc_start_call_main",
                                                      "execute_native_thread_routine"};

const Known* Find(const Frame& frame) {
  if (frame.kind != Frame::Kind::kNative) return nullptr;
  const auto* const known = std::find_if(std::begin(kKnown), std::end(kKnown), [&](const Known& one) {
    return std::string_view(frame.module).starts_with(one.prefix);
  });
  return known == std::end(kKnown) ? nullptr : known;
}

bool IsStart(const Frame& frame) {
  if (frame.kind != Frame::Kind::kNative) return false;
  if (std::find(kStarts.begin(), kStarts.end(), frame.function) != kStarts.end()) return true;
  return GroupOf(frame) == Group::kSystem && frame.function.empty();
}

// "train.py"; of names that many folders have, the folder too: "queues/__init__.py".
std::string ShortFile(const std::string& file) {
  std::size_t slash = file.rfind('/');
  if (slash == std::string::npos) return file;
  const std::string_view name = std::string_view(file).substr(slash + 1);
  if (name.starts_with("__") && slash > 0) {
    const std::size_t before = file.rfind('/', slash - 1);
    slash = before == std::string::npos ? slash : before;
  }
  return file.substr(slash + 1);
}

std::string Colon(const std::string& file, int line) { return line > 0 ? fmt::format("{}:{}", file, line) : file; }

std::string Place(const Frame& frame) { return fmt::format("{}+{:#x}", frame.module, frame.module_address); }

std::string Guess(const Frame& frame) { return frame.guessed ? " ?" : ""; }

// Frames from the outermost one inwards that every thread has: how many.
std::size_t CountStarts(const std::vector<Frame>& frames) {
  std::size_t count = 0;
  while (count < frames.size() && IsStart(frames[frames.size() - 1 - count])) ++count;
  // A program without symbols: its own first frame, then those of the C library.
  if (count == 0 && frames.size() > 1 && frames.back().function.empty()) {
    while (1 + count < frames.size() && IsStart(frames[frames.size() - 2 - count])) ++count;
    if (count > 0) ++count;
  }
  return count;
}

Line StartLine(const std::vector<Frame>& frames, std::size_t count) {
  const auto program = [](const Frame& frame) {
    return frame.function == "_start" || frame.function.starts_with("__libc_start");
  };
  const bool main = std::any_of(frames.end() - static_cast<std::ptrdiff_t>(count), frames.end(), program);
  return {main ? "[program start]" : "[thread start]", false, true};
}

// A run of frames of one library, innermost first: [from, to).
Line RunLine(const std::vector<Frame>& frames, std::size_t from, std::size_t to, const Known& known) {
  const bool noise = known.group == Group::kPython || known.group == Group::kOurs;
  const std::size_t count = to - from;
  const std::string counted = fmt::format("[{}: {} frame{}]", known.name, count, count == 1 ? "" : "s");
  if (noise) return {counted, false, true};
  if (count == 1 && !frames[from].function.empty()) return {ShortText(frames[from]), false, false};
  // What was called from outside, under the name that the caller knows.
  for (std::size_t i = to; i-- > from;) {
    if (frames[i].function.empty()) continue;
    if (known.group == Group::kSystem) return {ShortText(frames[i]), false, false};
    return {frames[i].function + " " + counted, false, false};
  }
  return {counted, false, false};
}

using Lines = std::vector<Line>;

// Lines as they are added; a function that calls itself, with nothing in between, once.
class Folded {
 public:
  void Add(Line line) {
    if (!lines_.empty() && !line.noise && lines_.back().text == line.text) {
      ++times_;
      return;
    }
    Count();
    lines_.push_back(std::move(line));
  }
  Lines Take() {
    Count();
    return std::move(lines_);
  }

 private:
  void Count() {
    if (times_ > 1) lines_.back().text += fmt::format(" [{} times]", times_);
    times_ = 1;
  }
  Lines lines_;
  std::size_t times_ = 1;
};

// The innermost Python line of the program itself; if there is none, of a package; if there is none, any.
Lines::const_iterator Standing(const Lines& lines) {
  for (const Origin origin : {Origin::kProgram, Origin::kPackage, Origin::kStandard})
    for (auto line = lines.begin(); line != lines.end(); ++line)
      if (line->python && line->origin == origin) return line;
  return lines.end();
}

// What the program called, from there inwards: the first of all, the last of a package, the first of what that called
// of the standard library, and what all came to.
std::vector<std::string> Inside(Lines::const_iterator innermost, Lines::const_iterator stands) {
  if (innermost == stands) return {};
  std::vector<Lines::const_iterator> chosen = {std::prev(stands)};
  for (auto line = innermost; line != stands; ++line) {
    if (!line->python || line->origin != Origin::kPackage) continue;
    chosen.push_back(line);
    if (line != innermost && std::prev(line)->python) chosen.push_back(std::prev(line));
    break;
  }
  chosen.push_back(innermost);
  std::sort(chosen.begin(), chosen.end(), std::greater<>());
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  std::vector<std::string> texts;
  for (const auto& line : chosen) texts.push_back(line->text);
  return texts;
}

// How many frames, from the innermost on, belong to a backend of torch.distributed in the program's own files: it is no
// more the program than torch's own backends are.
std::size_t CountBackend(const std::vector<Frame>& frames, std::size_t end) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < end; ++i) {
    const Frame& frame = frames[i];
    if (frame.kind != Frame::Kind::kPython || cpython::OriginOf(frame.file) != Origin::kProgram) continue;
    std::size_t caller = i + 1;
    while (caller < end && GroupOf(frames[caller]) == Group::kPython) ++caller;  // the interpreter's own
    const bool called = caller < end && frames[caller].kind == Frame::Kind::kPython;
    if (cpython::IsBackend(frame.function, called ? frames[caller].file : "")) count = i + 1;
  }
  return count;
}

// The lines that called it, outwards: the program's own, and its libraries' where there is room.
std::vector<std::string> Callers(Lines::const_iterator begin, const Lines& lines, std::size_t most) {
  std::vector<Lines::const_iterator> chosen;
  for (const bool own : {true, false})
    for (auto line = begin; line != lines.end(); ++line)
      if (line->python && (line->origin == Origin::kProgram) == own && chosen.size() < most) chosen.push_back(line);
  std::sort(chosen.begin(), chosen.end());
  std::vector<std::string> texts;
  for (const auto& line : chosen) texts.push_back(line->text);
  return texts;
}

}  // namespace

Group GroupOf(const Frame& frame) {
  const Known* const known = Find(frame);
  return known ? known->group : Group::kNone;
}

std::string OneLine(const std::string& text) { return Printable(text); }

std::string ShortText(const Frame& frame) {
  if (frame.kind == Frame::Kind::kPython)
    return OneLine(fmt::format("{} ({})", frame.function, Colon(ShortFile(frame.file), frame.line)));
  if (frame.module.empty()) return fmt::format("{:#x}{}", frame.address, Guess(frame));
  if (frame.function.empty()) return OneLine(Place(frame)) + Guess(frame);
  return OneLine(frame.function + " (" + frame.module + ")") + Guess(frame);
}

std::string FullText(const Frame& frame) {
  if (frame.kind == Frame::Kind::kPython) return OneLine(frame.function + "  " + Colon(frame.file, frame.line));
  if (frame.module.empty()) return fmt::format("{:#x}{}", frame.address, Guess(frame));
  return OneLine(fmt::format("{}  {}", frame.function.empty() ? "?" : frame.function, Place(frame))) + Guess(frame);
}

std::vector<Line> Fold(const std::vector<Frame>& frames) {
  Folded folded;
  const std::size_t starts = CountStarts(frames), end = frames.size() - starts;
  const std::size_t backend = CountBackend(frames, end);
  const auto origin_of = [&](std::size_t i) {
    const Origin origin = cpython::OriginOf(frames[i].file);
    return i < backend && origin == Origin::kProgram ? Origin::kPackage : origin;
  };
  for (std::size_t i = 0; i < end;) {
    const Known* const known = Find(frames[i]);
    if (!known) {
      const bool python = frames[i].kind == Frame::Kind::kPython;
      folded.Add({ShortText(frames[i]), python, false, python ? origin_of(i) : Origin::kProgram});
      ++i;
      continue;
    }
    std::size_t to = i;
    while (to < end) {
      const Known* const next = Find(frames[to]);
      if (!next || next->name != known->name) break;
      ++to;
    }
    folded.Add(RunLine(frames, i, to, *known));
    i = to;
  }
  if (starts > 0) folded.Add(StartLine(frames, starts));
  return folded.Take();
}

std::vector<std::string> Where(const Thread& thread) {
  std::vector<Line> lines = Fold(thread.frames);
  std::erase_if(lines, [](const Line& line) { return line.noise; });
  std::vector<std::string> where;
  const auto stands = Standing(lines);
  if (stands == lines.end()) {
    for (const Line& line : lines)
      if (where.size() < kMostWhere) where.push_back(line.text);
    return where;
  }
  where.push_back(stands->text);
  for (const std::string& text : Inside(lines.begin(), stands)) where.front() += " in " + text;
  for (std::string& caller : Callers(std::next(stands), lines, kMostWhere - 1)) where.push_back(std::move(caller));
  return where;
}

}  // namespace ncclwatch::stacks
