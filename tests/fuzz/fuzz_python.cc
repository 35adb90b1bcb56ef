// Python processes from bytes: the first choose version and shape of a small process, the rest is damage to its memory,
// at once and while it is read, and a table of lines. What must hold: no crash, an end within bounds, no more kept than
// may be, nothing but valid UTF-8.
#include <cstdlib>
#include <string>
#include <vector>

#include "analyzer/stacks/python/threads.h"
#include "tests/fuzz/input.h"
#include "tests/python_stacks/fake_process.h"
#include "watchdog/cpython/line_table.h"

namespace {

using namespace ncclwatch::stacks;
using ncclwatch::fuzz::Input;
using ncclwatch::fuzz::Require;
using python::testing::FakeFrame;
using python::testing::FakeProcess;

constexpr std::pair<int, bool> kVersions[] = {{9, false},  {10, false}, {11, false}, {12, false}, {13, false},
                                              {14, false}, {15, false}, {13, true},  {14, true},  {15, true}};
constexpr std::size_t kMostReads = 20'000'000;

void Damage(Input* input, FakeProcess* process) {
  std::vector<std::uint8_t>& memory = process->memory();
  const std::uint64_t at = input->Number(3) % memory.size() / 8 * 8;
  const std::uint8_t what = input->Next();
  std::uint64_t value = 0;
  switch (what % 6) {
    case 0: value = FakeProcess::kBase + input->Number(3) % memory.size(); break;
    case 1: value = FakeProcess::kBase + input->Number(3) % memory.size() / 16 * 16; break;
    case 2: value = input->Next(); break;
    case 3: value = input->Number(8); break;
    case 4: value = ~std::uint64_t{input->Next()}; break;
    case 5: memory[at + what / 6 % 8] ^= input->Next(); return;
  }
  process->Put(FakeProcess::kBase + at, value);
}

bool IsUtf8(const std::string& text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto first = static_cast<std::uint8_t>(text[i++]);
    const int more = first < 0x80 ? 0 : first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : first >= 0xc2 ? 1 : -1;
    if (more < 0 || first < 0x20 || first == 0x7f || first > 0xf4) return false;
    for (int j = 0; j < more; ++j, ++i)
      if (i >= text.size() || (static_cast<std::uint8_t>(text[i]) & 0xc0) != 0x80) return false;
  }
  return true;
}

void Build(Input* input, FakeProcess* process, const std::string& lines) {
  const std::uint64_t code[] = {
      process->Code(U"main", U"/train.py", 10, lines), process->Code(U"größe", U"/größe.py", 300, lines),
      process->Code(U"__init__", U"__init__", 1, ""), process->Code(U"𐍈", U"<string>", 1, lines)};
  const int threads = input->Next() % 4 + 1, depth = input->Next() % 8 + 1;
  for (int i = 0; i < 2; ++i) {
    const std::uint64_t interpreter = process->Interpreter(i);
    for (int thread = 0; thread < threads; ++thread) {
      std::vector<FakeFrame> frames;
      for (int frame = 0; frame < depth; ++frame)
        frames.push_back({code[(frame + thread) % 4], input->Next(), frame % 3 == 2 || frame + 1 == depth, 0});
      const std::uint64_t descriptor = process->Descriptor(720, 100 + thread);
      const std::uint64_t state =
          process->Thread(interpreter, descriptor, thread % 2 == 0 ? 100 + thread : 0, process->Frames(frames));
      if (thread == 0) process->Hold(interpreter, state);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input{data, size};
  const auto [minor, free_threaded] = kVersions[input.Next() % std::size(kVersions)];
  std::string lines(input.Next() % 64, '\0');
  for (char& byte : lines) byte = static_cast<char>(input.Next());
  for (int offset = -2; offset < 300; ++offset) Require(python::LineAt(minor, lines, 7, offset) >= 0);

  FakeProcess process(minor, free_threaded);
  Build(&input, &process, lines);
  const std::size_t at_once = input.Next() % 16;
  for (std::size_t i = 0; i < at_once && input.size > 0; ++i) Damage(&input, &process);
  process.meanwhile = [&](int number) {
    if (number % 3 == 0 && input.size > 0) Damage(&input, &process);
  };
  python::Layout layout = process.layout();
  if (minor >= python::kFirstSayingMinor) {
    const python::SaidLayout said = python::ReadLayout(&process, process.runtime());
    if (said.layout) layout = *said.layout;
  }
  const python::Tasks tasks = {{100, 1100}, {101, 1101}, {102, 1102}, {103, 1103}};
  const python::Stacks stacks = python::ReadThreads(&process, layout, process.runtime(), tasks);
  Require(process.reads() < kMostReads);
  for (const python::Thread& thread : stacks.threads) {
    Require(thread.tid == 0 || (thread.tid >= 1100 && thread.tid <= 1103));
    Require(thread.frames.size() <= 1024);
    Require(!thread.exact || thread.trouble.empty());
    for (const python::Frame& frame : thread.frames)
      Require(IsUtf8(frame.function) && IsUtf8(frame.file) && frame.line >= 0);
  }
  return 0;
}
