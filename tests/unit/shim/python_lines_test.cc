// Lines of Python for calls, on frames of every version that are put at their addresses in this process.
#include "shim/python/lines.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "shim/base/clock.h"
#include "tests/python_stacks/fake_process.h"

namespace ncclwatch::shim::clock {
bool uses_counter = true;
}

namespace ncclwatch::shim {
namespace {

using stacks::python::testing::FakeFrame;
using stacks::python::testing::FakeProcess;
using namespace cpython;

constexpr std::uint64_t kNative = 0x5555'0000'1234;
std::uint64_t this_thread = 0;

// Every instruction of a code object is on a line of its own, from `first` on: 3.9 and 3.10 count by tables of pairs,
// later ones by entries of one unit each.
std::string Lines(int minor, int instructions) {
  std::string table;
  for (int i = 0; i < instructions; ++i) {
    if (minor == 9)
      table += {2, 1};
    else if (minor == 10)
      table += {2, static_cast<char>(i == 0 ? 0 : 1)};
    else
      table += {static_cast<char>(0x80 | (i == 0 ? 10 : 11) << 3), 0, 0};
  }
  return table;
}

struct FakeCode {
  std::u32string name, file;
  int first_line = 0;
  std::uint64_t address = 0;
};

class Program {
 public:
  static constexpr int kInstructions = 20;

  explicit Program(int minor) : minor_(minor), process(minor, false) { interpreter_ = process.Interpreter(0); }
  ~Program() {
    if (mapped_) munmap(mapped_, bytes_);
  }
  Program(const Program&) = delete;

  FakeCode Code(const std::u32string& name, const std::u32string& file, int first_line) {
    return {name, file, first_line, process.Code(name, file, first_line, Lines(minor_, kInstructions))};
  }
  // The last one is the main thread.
  std::uint64_t Thread(std::uint64_t frame, int id) {
    return process.Thread(interpreter_, process.Allocate(64), static_cast<std::uint64_t>(id), frame);
  }

  // From here on it is this process's memory.
  void Map() {
    constexpr std::size_t kPages = 4096;
    bytes_ = (process.memory().size() + kPages) / kPages * kPages;
    process.memory().resize(bytes_);
    mapped_ = mmap(reinterpret_cast<void*>(FakeProcess::kBase), bytes_, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    ASSERT_EQ(mapped_, reinterpret_cast<void*>(FakeProcess::kBase));
    Restore();
  }
  std::size_t bytes() const { return bytes_; }
  void Restore() { std::memcpy(mapped_, process.memory().data(), bytes_); }

  pyframes::Interpreter Interpreter() {
    pyframes::Interpreter interpreter;
    interpreter.layout = process.layout();
    const auto said = ReadLayout(&process, process.runtime());
    if (said.layout) interpreter.layout = *said.layout;
    interpreter.runtime = process.runtime();
    interpreter.code_type = process.Type("code");
    pyframes::SetSizes(&interpreter);
    interpreter.this_thread = [] { return reinterpret_cast<void*>(this_thread); };
    interpreter.is_initialized = [] { return 1; };
    return interpreter;
  }

 private:
  int minor_;
  std::uint64_t interpreter_ = 0;
  void* mapped_ = nullptr;
  std::size_t bytes_ = 0;

 public:
  FakeProcess process;
};

struct Table {
  Table() : sites(std::make_unique<format::PythonSites>()) {}
  std::string At(std::uint64_t place) const {
    if (place < 1 || place > sites->used) return "";
    char name[format::kPythonSiteName];
    format::PythonSiteName(sites->entries[place - 1], name, sizeof name);
    return name;
  }
  std::unique_ptr<format::PythonSites> sites;
};

constexpr std::uint64_t kTicksPerSecond = 1'000'000'000;

TEST(PythonLines, TheInnermostLineOfTheProgram) {
  for (int minor = kOldestMinor; minor <= kNewestMinor; ++minor) {
    SCOPED_TRACE(minor);
    Program program(minor);
    const FakeCode reduce = program.Code(U"all_reduce", U"/v/lib/python3/site-packages/torch/distributed.py", 10);
    const FakeCode step = program.Code(U"Trainer.step", U"/home/you/train.py", 20);
    const FakeCode run = program.Code(U"run", U"/usr/lib/python3.11/threading.py", 30);
    const std::uint64_t idle = program.Thread(0, 0);
    this_thread = program.Thread(
        program.process.Frames({{reduce.address, 1}, {step.address, 3, true}, {run.address, 5, true}}), getpid());
    const pyframes::Interpreter interpreter = program.Interpreter();
    program.Map();
    Table table;
    const auto lines = std::make_unique<PythonLines>(interpreter, table.sites.get(), kTicksPerSecond);
    Thread thread{};
    for (int i = 0; i < 3; ++i)
      EXPECT_EQ(table.At(lines->PlaceOf(thread, kNative)), "/home/you/train.py:23 in Trainer.step");
    EXPECT_EQ(thread.python_state, this_thread);
    EXPECT_EQ(table.sites->used, 1u);
    EXPECT_EQ(table.sites->entries[0].native, kNative);
    for (const std::uint64_t other : {idle, std::uint64_t{0}}) {
      this_thread = other;
      EXPECT_EQ(table.At(lines->PlaceOf(thread, kNative)), "/home/you/train.py:23 in Trainer.step (main thread)");
    }
  }
}

// A program whose thread has one of many stacks, and code objects that are others from time to time at the same
// addresses.
class RandomProgram {
 public:
  static constexpr int kCodes = 40;

  RandomProgram(int minor, std::uint64_t seed, int stacks) : program_(minor), random_(seed) {
    for (int i = 0; i < kCodes; ++i) codes_.push_back(Variant());
    for (int i = 0; i < kCodes; ++i) others_.push_back(Variant());
    for (int i = 0; i < stacks; ++i) stacks_.push_back(Stack());
    this_thread = program_.Thread(heads_.front(), getpid());
    interpreter_ = program_.Interpreter();
    program_.Map();
  }

  const pyframes::Interpreter& interpreter() const { return interpreter_; }
  int Below(int end) { return static_cast<int>(random_() % static_cast<std::uint64_t>(end)); }

  // Of the stack that the thread has from now on.
  std::string Next() {
    const auto stack = static_cast<std::size_t>(Below(static_cast<int>(stacks_.size())));
    PutHead(heads_[stack]);
    return Expected(stacks_[stack]);
  }
  // Another object at the address of one.
  void Replace() {
    const auto at = static_cast<std::size_t>(Below(kCodes));
    const std::uint64_t address = codes_[at].address, other = others_[at].address;
    char bytes[kSwapped], others[kSwapped];
    std::memcpy(bytes, reinterpret_cast<void*>(address), kSwapped);
    std::memcpy(others, reinterpret_cast<void*>(other), kSwapped);
    std::memcpy(reinterpret_cast<void*>(address), others, kSwapped);
    std::memcpy(reinterpret_cast<void*>(other), bytes, kSwapped);
    std::swap(codes_[at], others_[at]);
    std::swap(codes_[at].address, others_[at].address);
  }
  // One to three words of anything in the place of others.
  void Damage() {
    for (int words = 1 + Below(3); words > 0; --words) {
      const std::uint64_t at =
          FakeProcess::kBase + static_cast<std::uint64_t>(Below(static_cast<int>(program_.bytes() / 8))) * 8;
      std::uint64_t value = random_();
      switch (Below(6)) {
        case 0: break;
        case 1: value = 0; break;
        case 2: value = value % 4096; break;
        case 3: value = FakeProcess::kBase + program_.bytes() - value % 64; break;  // the end of what is mapped
        default: value = FakeProcess::kBase + value % program_.bytes() / 8 * 8;
      }
      std::memcpy(reinterpret_cast<void*>(at), &value, sizeof value);
    }
  }
  void Restore() { program_.Restore(); }

 private:
  static constexpr std::size_t kSwapped = 1024;  // bytes of a FakeProcess's code object

  FakeCode Variant() {
    static const std::u32string kFiles[] = {
        U"/home/you/train.py",          U"/home/you/common/reduce.py", U"<string>",
        U"/v/site-packages/torch/a.py", U"/usr/lib/python3.11/b.py",   U"/x/dist-packages/c.py"};
    static const std::u32string kNames[] = {U"main", U"step", U"Trainer.run", U"f"};
    return program_.Code(kNames[Below(4)], kFiles[Below(6)], 1 + Below(50));
  }
  struct Step {
    std::size_t code;
    int instruction;
  };
  std::vector<Step> Stack() {
    std::vector<Step> steps;
    std::vector<FakeFrame> frames;
    for (int depth = 1 + Below(25); depth > 0; --depth) {
      steps.push_back({static_cast<std::size_t>(Below(kCodes)), Below(Program::kInstructions)});
      frames.push_back({codes_[steps.back().code].address, steps.back().instruction, Below(3) == 0});
    }
    heads_.push_back(program_.process.Frames(frames));
    return steps;
  }
  std::string Expected(const std::vector<Step>& steps) const {
    for (const Origin wanted : {Origin::kProgram, Origin::kPackage, Origin::kStandard})
      for (const Step& step : steps) {
        const FakeCode& code = codes_[step.code];
        const std::string file(code.file.begin(), code.file.end()), name(code.name.begin(), code.name.end());
        if (OriginOf(file) != wanted) continue;
        return file + ":" + std::to_string(code.first_line + step.instruction) + " in " + name;
      }
    return "";
  }
  void PutHead(std::uint64_t frame) {
    std::uint64_t at = this_thread + static_cast<std::uint64_t>(interpreter_.layout[kThreadFrame]);
    if (interpreter_.layout.Has(kCFrameFrame))
      std::memcpy(&at, reinterpret_cast<void*>(at), sizeof at), at += interpreter_.layout[kCFrameFrame];
    std::memcpy(reinterpret_cast<void*>(at), &frame, sizeof frame);
  }

  Program program_;
  std::mt19937_64 random_;
  std::vector<FakeCode> codes_, others_;
  std::vector<std::uint64_t> heads_;
  std::vector<std::vector<Step>> stacks_;
  pyframes::Interpreter interpreter_;
};

int Walks(int fallback) {
  const char* const number = std::getenv("NCCLWATCH_TEST_WALKS");  // of each version
  return number ? std::atoi(number) : fallback;
}

TEST(PythonLines, RandomFramesOfCodeThatChangesAtItsAddress) {
  for (int minor = kOldestMinor; minor <= kNewestMinor; ++minor) {
    SCOPED_TRACE(minor);
    RandomProgram program(minor, 7, 300);
    Table table;
    const auto lines = std::make_unique<PythonLines>(program.interpreter(), table.sites.get(), kTicksPerSecond);
    Thread thread{};
    for (int i = 0; i < Walks(50'000); ++i) {
      if (i % 500 == 499) program.Replace();
      const std::string expected = program.Next();
      const std::uint64_t place = lines->PlaceOf(thread, kNative);
      if (place == kNative && table.sites->used == format::kPythonSites) continue;
      ASSERT_EQ(table.At(place), expected) << i;
    }
    EXPECT_GT(table.sites->used, 100u);
  }
}

TEST(PythonLines, DamagedMemoryIsNoLineAndNoCrash) {
  for (int minor = kOldestMinor; minor <= kNewestMinor; ++minor) {
    SCOPED_TRACE(minor);
    RandomProgram program(minor, 8, 10);
    std::unique_ptr<PythonLines> lines;
    Table table;
    for (int i = 0; i < Walks(50'000) / 100; ++i) {
      // It gives up after some troubles.
      if (i % 8 == 0) lines = std::make_unique<PythonLines>(program.interpreter(), table.sites.get(), kTicksPerSecond);
      if (i % 8 == 0) table.sites->used = 0;
      program.Next();
      for (int words = 0; words < 40; ++words) program.Damage();
      Thread thread{};
      const std::uint64_t place = lines->PlaceOf(thread, kNative);
      EXPECT_TRUE(place == kNative || place <= table.sites->used);
      program.Restore();
    }
  }
}

}  // namespace
}  // namespace ncclwatch::shim
