// The reader on processes made up: every version's layout, lists that are torn, endless or lead nowhere.
#include <gtest/gtest.h>

#include <algorithm>

#include "analyzer/stacks/python/find.h"
#include "analyzer/stacks/python/threads.h"
#include "tests/python_stacks/fake_process.h"
#include "watchdog/cpython/line_table.h"
#include "watchdog/cpython/objects.h"

namespace ncclwatch::stacks::python {
namespace {

using testing::FakeFrame;
using testing::FakeProcess;

constexpr std::pair<int, bool> kVersions[] = {{9, false},  {10, false}, {11, false}, {12, false}, {13, false},
                                              {14, false}, {15, false}, {13, true},  {14, true},  {15, true}};

// Ten instructions on the first line, ten on the third, ten on none.
std::string LinesOf(int minor) {
  if (minor == 9) return {20, 2, 20, 0};
  if (minor == 10) return {20, 0, 20, 2, 20, -128};
  const auto entry = [](unsigned form, unsigned units) { return static_cast<char>(0x80 | form << 3 | (units - 1)); };
  std::string table;
  table += {entry(10, 8), 0, 0, entry(10, 2), 0, 0};  // one line, 0 further
  table += {entry(13, 8), 4, entry(13, 2), 0};        // no columns: +2, +0
  table += {entry(15, 8), entry(15, 2)};
  return table;
}

struct Program {
  Program(int minor, bool free_threaded, int depth = 3) : process(minor, free_threaded) {
    interpreter = process.Interpreter(0);
    outer = process.Code(U"<module>", U"/home/größe/train.py", 10, LinesOf(minor));
    inner = process.Code(U"Trainer.step", U"/usr/lib/trainer.py", 70, LinesOf(minor));
    for (int i = 0; i + 1 < depth; ++i) frames.push_back({inner, 12, i == 1});
    frames.push_back({outer, 3, true});
    frame = process.Frames(frames);
    descriptor = process.Descriptor(720, 42);
    thread = process.Thread(interpreter, descriptor, 42, frame);
  }
  Stacks Read() { return ReadThreads(&process, process.layout(), process.runtime(), {{42, 1042}, {43, 1043}}); }

  FakeProcess process;
  std::uint64_t interpreter = 0, outer = 0, inner = 0, frame = 0, descriptor = 0, thread = 0;
  std::vector<FakeFrame> frames;
};

class EveryVersion : public ::testing::TestWithParam<std::pair<int, bool>> {
 protected:
  Program program{GetParam().first, GetParam().second};
};
INSTANTIATE_TEST_SUITE_P(Python3, EveryVersion, ::testing::ValuesIn(kVersions),
                         [](const ::testing::TestParamInfo<std::pair<int, bool>>& version) {
                           return std::to_string(version.param.first) + (version.param.second ? "t" : "");
                         });

TEST_P(EveryVersion, ReadsFramesLinesEntriesAndTheHolder) {
  program.process.Hold(program.interpreter, program.thread);
  const Stacks stacks = program.Read();
  EXPECT_EQ(stacks.trouble, "");
  ASSERT_EQ(stacks.threads.size(), 1u);
  const Thread& thread = stacks.threads[0];
  EXPECT_EQ(thread.tid, 1042);
  EXPECT_TRUE(thread.exact);
  EXPECT_EQ(thread.gil, Gil::kHeld);
  EXPECT_EQ(thread.trouble, "");
  const bool all = GetParam().first <= 10;
  EXPECT_EQ(thread.frames, (std::vector<Frame>{{"Trainer.step", "/usr/lib/trainer.py", 72, all},
                                               {"Trainer.step", "/usr/lib/trainer.py", 72, true},
                                               {"<module>", "/home/größe/train.py", 10, true}}));
}

TEST_P(EveryVersion, SaysItsLayoutAsItIs) {
  if (GetParam().first < kFirstSayingMinor) return;
  const SaidLayout said = ReadLayout(&program.process, program.process.runtime());
  ASSERT_TRUE(said.layout) << said.trouble;
  EXPECT_EQ(said.layout->at, program.process.layout().at);
  EXPECT_EQ(VersionText(said.version), "3." + std::to_string(GetParam().first) + ".1");
}

TEST_P(EveryVersion, EndsWhereFramesGoRound) {
  program.process.PutPointer(program.frame, kFramePrevious, program.frame);
  const Stacks stacks = program.Read();
  ASSERT_EQ(stacks.threads.size(), 1u);
  EXPECT_FALSE(stacks.threads[0].exact);
  EXPECT_NE(stacks.threads[0].trouble, "");
  EXPECT_EQ(stacks.threads[0].frames.size(), 1u);
}

TEST_P(EveryVersion, EndsWhereThreadsAndInterpretersGoRound) {
  const std::uint64_t second = program.process.Thread(program.interpreter, 0, 43, 0);
  program.process.PutPointer(second, kThreadNext, program.thread);
  EXPECT_NE(program.Read().trouble, "");
  EXPECT_EQ(program.Read().threads.size(), 2u);
  program.process.PutPointer(second, kThreadNext, 0);
  EXPECT_EQ(program.Read().trouble, "");
  program.process.PutPointer(program.interpreter, kInterpreterNext, program.interpreter);
  EXPECT_NE(program.Read().trouble, "");
}

TEST_P(EveryVersion, KeepsTheInnermostFramesOfADeepStack) {
  Program deep(GetParam().first, GetParam().second, 5000);
  const Stacks stacks = deep.Read();
  EXPECT_TRUE(stacks.threads[0].cut);
  EXPECT_TRUE(stacks.threads[0].exact);
  EXPECT_EQ(stacks.threads[0].frames.size(), 1024u);
}

TEST_P(EveryVersion, EndsThoughThereIsMoreThanCanBe) {
  for (int i = 0; i < 2000; ++i) program.process.Thread(program.interpreter, 0, 43, program.frame);
  Program deep(GetParam().first, GetParam().second, 1000);
  for (int i = 0; i < 1000; ++i) deep.process.Thread(deep.interpreter, 0, 43, deep.frame);
  EXPECT_EQ(program.Read().threads.size(), 2001u);
  const Stacks stacks = deep.Read();
  EXPECT_EQ(stacks.threads.size(), 1001u);
  EXPECT_EQ(stacks.threads.back().trouble, "there is too much to read");
  EXPECT_LT(deep.process.reads(), 20'000'000u);
}

TEST_P(EveryVersion, LeavesOutWhatHasNoCode) {
  // Where the code of the middle frame should be is a str.
  program.process.PutPointer(program.inner, kObjectType, program.process.Type("str"));
  const Stacks stacks = program.Read();
  EXPECT_EQ(stacks.threads[0].frames.size(), 0u);
  EXPECT_FALSE(stacks.threads[0].exact);
  EXPECT_NE(stacks.threads[0].trouble, "");
}

TEST_P(EveryVersion, WaitsUntilTwoReadingsAgree) {
  const std::uint64_t other = program.process.Frames({{program.outer, 5, true}});
  const std::uint64_t pointer =
      GetParam().first == 11 || GetParam().first == 12
          ? program.process.At(*program.process.Value<std::uint64_t>(program.process.At(program.thread, kThreadFrame)),
                               kCFrameFrame)
          : program.process.At(program.thread, kThreadFrame);
  // Memory is forgotten before the frames, before the names and before the frames again: two readings of the frames
  // are two apart.
  const auto flip = [&](int number) { program.process.Put(pointer, number / 2 % 2 == 0 ? other : program.frame); };
  program.process.meanwhile = [&](int number) {
    if (number < 6) flip(number);
  };
  Stacks stacks = program.Read();
  EXPECT_TRUE(stacks.threads[0].exact);
  program.process.meanwhile = flip;
  stacks = program.Read();
  EXPECT_FALSE(stacks.threads[0].exact);
  EXPECT_EQ(stacks.threads[0].trouble, "");
  EXPECT_TRUE(stacks.threads[0].frames.size() == 1 || stacks.threads[0].frames.size() == 3);
}

TEST_P(EveryVersion, FindsTheNumberInTheDescriptor) {
  if (program.process.layout().Has(kThreadNativeId)) program.process.PutPointer(program.thread, kThreadNativeId, 7);
  EXPECT_EQ(program.Read().threads[0].tid, 1042);
  program.process.Put(program.descriptor + 720, std::int32_t{0});
  program.process.Put(program.descriptor + 48, std::int32_t{43});  // another C library
  EXPECT_EQ(program.Read().threads[0].tid, 1043);
  program.process.Put(program.descriptor + 48, std::int32_t{0});
  EXPECT_EQ(program.Read().threads[0].tid, 0);
}

TEST_P(EveryVersion, ReadsTextOfAnyWidth) {
  FakeProcess& process = program.process;
  Objects objects(&process, process.layout());
  EXPECT_EQ(objects.Str(process.Str(U""), 9), "");
  EXPECT_EQ(objects.Str(process.Str(U"plain\x7f\n"), 9), "plain??");
  EXPECT_EQ(objects.Str(process.Str(U"größe"), 9), "größe");
  EXPECT_EQ(objects.Str(process.Str(U"Ελλάς"), 9), "Ελλάς");
  EXPECT_EQ(objects.Str(process.Str(U"𐍈 ok"), 9), "𐍈 ok");
  EXPECT_EQ(objects.Str(process.Str(std::u32string{'a', 0xdcff}), 9), "a?");  // a byte that was no UTF-8
  EXPECT_EQ(objects.Str(process.Str(U"0123456789"), 9), "012345678...");
  const std::uint64_t text = process.Str(U"text");
  process.PutInt(text, kStrState, 0);
  EXPECT_EQ(objects.Str(text, 9), std::nullopt);
  EXPECT_EQ(objects.Str(text + 4, 9), std::nullopt);
  EXPECT_EQ(objects.Str(process.Bytes("text"), 9), std::nullopt);
  const std::uint64_t bytes = process.Bytes("text");
  EXPECT_EQ(objects.Bytes(bytes, 4), "text");
  EXPECT_EQ(objects.Bytes(bytes, 3), std::nullopt);
  process.PutPointer(bytes, kBytesLength, UINT64_MAX);
  EXPECT_EQ(objects.Bytes(bytes, SIZE_MAX / 2), std::nullopt);
}

TEST_P(EveryVersion, SeesThatOtherCodeLiesWhereSomeWas) {
  FakeProcess& process = program.process;
  Objects objects(&process, process.layout());
  EXPECT_EQ(objects.CodeAt(program.inner)->function, "Trainer.step");
  const Field name = process.layout().Has(kCodeQualifiedName) ? kCodeQualifiedName : kCodeName;
  process.PutPointer(program.inner, name, process.Str(U"other"));
  EXPECT_EQ(objects.CodeAt(program.inner)->function, "other");
}

TEST(InitFrame, IsLeftOut) {
  Program program(12, false);
  const std::uint64_t init = program.process.Code(U"__init__", U"__init__", 1, "");
  program.process.PutPointer(program.frame, kFrameCode, init);
  const Stacks stacks = program.Read();
  EXPECT_EQ(stacks.threads[0].frames.size(), 2u);
  EXPECT_TRUE(stacks.threads[0].exact);
}

TEST(FreeThreaded, TakesTheCopyOfTheCodeThatRuns) {
  Program program(14, true);
  FakeProcess& process = program.process;
  const std::uint64_t copies = process.Allocate(32), copy = process.Allocate(64);
  process.Put(copies, std::int64_t{2});
  process.Put(copies + 16, copy);
  process.PutPointer(program.inner, kCodeCopies, copies);
  process.PutInt(program.frame, kFrameCodeCopy, 1);
  process.PutPointer(program.frame, kFrameInstruction, copy + 24);
  EXPECT_EQ(program.Read().threads[0].frames[0].line, 72);
  process.PutInt(program.frame, kFrameCodeCopy, 2);
  EXPECT_EQ(program.Read().threads[0].frames[0].line, 0);
  const std::uint64_t gil = *process.Value<std::uint64_t>(process.At(program.interpreter, kInterpreterGil));
  process.PutInt(gil, kGilEnabled, 0);
  EXPECT_EQ(program.Read().threads[0].gil, Gil::kNone);
}

TEST(SaidLayout, IsRefusedWhereItIsDamagedOrUnknown) {
  FakeProcess process(14, false);
  EXPECT_TRUE(ReadLayout(&process, process.runtime()).layout);
  process.Put(process.runtime() + static_cast<std::uint64_t>((*KnownLayout(14, false))[kThreadNext]), UINT64_MAX);
  EXPECT_FALSE(ReadLayout(&process, process.runtime()).layout);
  FakeProcess next(15, false);
  next.Put(next.runtime() + 8, std::uint64_t{0x031000f0});
  const SaidLayout said = ReadLayout(&next, next.runtime());
  EXPECT_FALSE(said.layout);
  EXPECT_EQ(said.trouble, "its layout is not known");
  EXPECT_EQ(VersionText(said.version), "3.16.0");
  next.Put(next.runtime(), std::uint64_t{0});
  EXPECT_EQ(ReadLayout(&next, next.runtime()).version, 0u);
  EXPECT_FALSE(ReadLayout(&next, 0).layout);
}

TEST(LineTable, OfEachEncoding) {
  for (const int minor : {9, 10, 11, 14}) {
    const std::string table = LinesOf(minor);
    EXPECT_EQ(LineAt(minor, table, 10, -2), 10);
    EXPECT_EQ(LineAt(minor, table, 10, 0), 10);
    EXPECT_EQ(LineAt(minor, table, 10, 18), 10);
    EXPECT_EQ(LineAt(minor, table, 10, 20), 12);
    EXPECT_EQ(LineAt(minor, table, 10, 38), 12);
    EXPECT_EQ(LineAt(minor, table, 10, 40), minor == 9 ? 12 : 0);
    EXPECT_EQ(LineAt(minor, table, 10, 60), minor == 9 ? 12 : 0);
    EXPECT_EQ(LineAt(minor, table, -20, 0), 0);
    for (std::size_t size = 0; size < table.size(); ++size) LineAt(minor, table.substr(0, size), INT32_MAX, 1 << 20);
  }
  EXPECT_EQ(LineAt(9, std::string{4, -3, 0, -3}, 10, 4), 4);
  // Far forward, and back: a varint of two bytes, and a negative one.
  EXPECT_EQ(LineAt(11, std::string{char(0xe8), 0x40, 0x10, char(0xe8), 0x41, 0x10}, 7, 0), 7 + 512);
  EXPECT_EQ(LineAt(11, std::string{char(0xe8), 0x40, 0x10, char(0xe8), 0x41, 0x10}, 7, 2), 7);
}

TEST(PythonMemory, LeavesFilesAndDevicesAlone) {
  const Maps maps(
      "1000-3000 rw-p 00000000 fe:01 7 /usr/bin/python3.11\n"
      "3000-5000 rw-p 00000000 00:00 0 \n"
      "5000-7000 rw-s 00000000 00:06 9 /dev/nvidia0\n"
      "7000-8000 r--p 00000000 00:00 0 [vvar]\n"
      "9000-a000 ---p 00000000 00:00 0 \n");
  class All : public Reader {
   public:
    bool Read(std::uint64_t, void* to, std::size_t bytes) override { return std::memset(to, 1, bytes) != nullptr; }
  } all;
  const Module module{"/usr/bin/python3.11", "python3.11", 0x1000, 0x3000, 0, nullptr};
  PythonMemory memory(&all, maps, module);
  std::array<char, 16> bytes{};
  const auto reads = [&](std::uint64_t address) { return memory.Read(address, bytes.data(), bytes.size()); };
  EXPECT_TRUE(reads(0x1000));
  EXPECT_TRUE(reads(0x2ff8));
  EXPECT_TRUE(reads(0x3000));
  EXPECT_FALSE(reads(0x4ff8));  // reaches into the device
  EXPECT_FALSE(reads(0x5800));
  EXPECT_FALSE(reads(0x7000));
  EXPECT_TRUE(reads(0x8000));  // not there when the map was read
  EXPECT_FALSE(reads(0x9000));
  EXPECT_FALSE(reads(UINT64_MAX - 4));
}

}  // namespace
}  // namespace ncclwatch::stacks::python
