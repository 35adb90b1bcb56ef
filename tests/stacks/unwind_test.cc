// Unwinding this process's own threads, and single steps by tables that are whole or damaged.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <thread>

#include "analyzer/stacks/base/elf_file.h"
#include "analyzer/stacks/threads/read_threads.h"
#include "analyzer/stacks/unwind/check.h"
#include "analyzer/stacks/unwind/processor.h"
#include "analyzer/stacks/unwind/step.h"

namespace ncclwatch::stacks {
namespace {

std::array<int, 2> pipe_ends;
std::atomic<int> sleeper{0};

[[gnu::noinline]] void WaitHere() {
  sleeper.store(static_cast<int>(syscall(SYS_gettid)));
  pollfd one{pipe_ends[0], POLLIN, 0};
  poll(&one, 1, -1);
  asm volatile("" ::: "memory");
}

[[gnu::noinline]] void OneAbove() {
  WaitHere();
  asm volatile("" ::: "memory");
}

const Thread* Find(const ThreadsRead& read, int tid) {
  const auto found =
      std::find_if(read.threads.begin(), read.threads.end(), [tid](const Thread& thread) { return thread.tid == tid; });
  return found == read.threads.end() ? nullptr : &*found;
}

TEST(Unwind, OwnThreadThatSleeps) {
  ASSERT_EQ(pipe(pipe_ends.data()), 0);
  std::thread thread(OneAbove);
  while (sleeper.load() == 0) std::this_thread::yield();
  ReadOptions options;
  options.stop = false;  // one cannot stop oneself
  const Thread* found = nullptr;
  ThreadsRead read;
  for (int i = 0; i < 1000 && (!found || found->how != How::kSleeping); ++i) {
    Memory memory(getpid());
    Modules modules(&memory, nullptr);
    NameCache names;
    read = ReadThreads(&memory, &modules, &names, LookAtThreads(getpid()), options);
    found = Find(read, sleeper.load());
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ASSERT_NE(write(pipe_ends[1], "x", 1), -1);
  thread.join();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->state, 'S');
  EXPECT_EQ(found->trouble, "");
  std::vector<std::string> own;
  for (const Frame& frame : found->frames)
    if (frame.function.find("WaitHere") != std::string::npos || frame.function.find("OneAbove") != std::string::npos)
      own.push_back(frame.function.substr(frame.function.rfind(':') + 1));
  EXPECT_EQ(own, (std::vector<std::string>{"WaitHere", "OneAbove"}));
}

TEST(Unwind, ARunningThreadIsLeftOutWhereNothingMayBeStopped) {
  std::atomic<int> runner{0};
  std::atomic<bool> over{false};
  std::thread thread([&] {
    runner.store(static_cast<int>(syscall(SYS_gettid)));
    while (!over.load()) {
    }
  });
  while (runner.load() == 0) std::this_thread::yield();
  Memory memory(getpid());
  Modules modules(&memory, nullptr);
  NameCache names;
  ReadOptions options;
  options.stop = false;
  const ThreadsRead read = ReadThreads(&memory, &modules, &names, LookAtThreads(getpid()), options);
  over.store(true);
  thread.join();
  const Thread* const found = Find(read, runner.load());
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->frames.empty());
  EXPECT_EQ(found->trouble, "it is running and was not stopped");
}

[[gnu::noinline]] std::uint64_t ReturnAddress() {
  return reinterpret_cast<std::uint64_t>(__builtin_extract_return_addr(__builtin_return_address(0)));
}

TEST(Unwind, ACallOfNothing) {
  const std::uint64_t caller = ReturnAddress();
  Memory memory(getpid());
  Modules modules(&memory, nullptr);
  for (const std::uint64_t nowhere : {std::uint64_t{0}, reinterpret_cast<std::uint64_t>(&pipe_ends)}) {
    const std::array<std::uint64_t, 2> words = {caller, 0};
    const std::uint64_t begin = 0x7ffe00000000;
    CopiedStretch stack(begin, std::as_bytes(std::span(words)), &memory);
    Registers registers;
    registers.pc = nowhere;
    registers.Set(processor::kStackPointer, begin);
    registers.Set(processor::kLink, caller);
    const Walk walk = Unwind(registers, &stack, &memory, &modules);
    ASSERT_GE(walk.frames.size(), 2u);
    EXPECT_EQ(walk.frames[1].pc, caller);
    EXPECT_FALSE(walk.frames[1].exact || walk.frames[1].guessed);
  }
}

// A file with one byte changed.
class Damaged : public Bytes {
 public:
  Damaged(const std::vector<std::uint8_t>* file, std::size_t at, std::uint8_t value)
      : file_(file), at_(at), value_(value) {}
  std::size_t ReadAt(std::uint64_t offset, void* to, std::size_t bytes) override {
    if (offset >= file_->size()) return 0;
    bytes = std::min<std::size_t>(bytes, file_->size() - offset);
    std::memcpy(to, file_->data() + offset, bytes);
    if (at_ >= offset && at_ - offset < bytes) static_cast<std::uint8_t*>(to)[at_ - offset] = value_;
    return bytes;
  }

 private:
  const std::vector<std::uint8_t>* file_;
  std::size_t at_;
  std::uint8_t value_;
};

class Tables : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kBias = 0x7f0000000000, kStack = 0x7ffe00001000, kCaller = 0x401234;

  // The word at each address of the stack is the same: any frame returns to kCaller.
  class Stack : public Reader {
   public:
    bool Read(std::uint64_t address, void* to, std::size_t bytes) override {
      if (address < kStack || address - kStack > 4096 || bytes != sizeof(kCaller)) return false;
      std::memcpy(to, &kCaller, bytes);
      return true;
    }
  };

  void SetUp() override {
    FILE* const input = fopen(STACKS_SAMPLE, "rb");
    ASSERT_TRUE(input);
    file_.resize(4 << 20);
    file_.resize(fread(file_.data(), 1, file_.size(), input));
    fclose(input);
    whole_ = Open(SIZE_MAX, 0);
    ASSERT_TRUE(whole_);
    const auto function = whole_->Named("WaitInsideLibrary");
    ASSERT_TRUE(function);
    function_ = function->address;
    registers_.pc = kBias + function_ + 1;
    registers_.Set(processor::kStackPointer, kStack);
    registers_.Set(processor::kFramePointer, kStack + 64);
    if (processor::kLink != kRegisters) registers_.Set(processor::kLink, kCaller);
  }

  std::shared_ptr<ElfFile> Open(std::size_t place, std::uint8_t value) const {
    return ElfFile::OfBytes(std::make_unique<Damaged>(&file_, place, value));
  }
  Step StepIn(std::shared_ptr<ElfFile> file) {
    Module module{"", "", kBias, kBias + (4 << 20), kBias, std::move(file)};
    Stack stack;
    return Stepper().ToCaller({registers_, false, &module, &stack});
  }
  std::vector<std::uint8_t> file_;
  std::shared_ptr<ElfFile> whole_;
  std::uint64_t function_ = 0;
  Registers registers_;
};

TEST_F(Tables, LeadToTheCaller) {
  EXPECT_EQ(whole_->FunctionsAt({function_ + 1})[0]->name, "WaitInsideLibrary");
  const Step step = StepIn(whole_);
  ASSERT_EQ(step.result, Step::Result::kCaller);
  EXPECT_EQ(step.caller.pc, kCaller);
  EXPECT_FALSE(step.signal_frame);
  EXPECT_GE(step.caller.Get(processor::kStackPointer).value_or(0), kStack);
  EXPECT_FALSE(step.caller.Get(0)) << "no function gives back the first register";
}

TEST_F(Tables, AreMissing) {
  registers_.pc = kBias + (3 << 20);
  EXPECT_EQ(StepIn(whole_).result, Step::Result::kNoTable) << "not guessed by the frame pointer";
  EXPECT_EQ(StepIn(nullptr).result, Step::Result::kNoTable);
}

TEST_F(Tables, NeedTheStack) {
  if (processor::kLink != kRegisters) GTEST_SKIP() << "the return address is in a register at first";
  registers_.Set(processor::kStackPointer, 16);
  EXPECT_EQ(StepIn(whole_).result, Step::Result::kUnreadable);
}

// Damaged ones say nothing rather than crash.
TEST_F(Tables, MayBeWrongInEveryByte) {
  constexpr std::size_t kPlaces = 4096;  // headers, symbols and tables: the file is a small one
  ASSERT_LT(whole_->FindUnwindTable().value_or(UnwindTable{kPlaces, 0, 0}).header, kPlaces);
  std::size_t sane = 0;
  for (std::size_t place = 0; place < kPlaces; ++place) {
    for (const int value : {0x00, 0x80, 0xff}) {
      const auto damaged = Open(place, static_cast<std::uint8_t>(value));
      if (!damaged) continue;
      sane += StepIn(damaged).result == Step::Result::kCaller;
      damaged->FunctionsAt({function_ + 1});
    }
  }
  EXPECT_GT(sane, kPlaces);
}

TEST(LookThrough, ProgramsThatCanBeRun) {
  const auto runs = [](std::vector<std::uint8_t> program) { return LookThrough(program).has_value(); };
  EXPECT_TRUE(runs({}));
  EXPECT_TRUE(runs({0x41, 0x0e, 0x10, 0x86, 0x02, 0x0a, 0xc6, 0x0b}));  // as in any function
  EXPECT_TRUE(runs({0x09, 0x06, 0x03}));                                // register: r6 is in r3
  EXPECT_FALSE(runs({0x09, 0x06, 0xff, 0xff, 0x03}));                   // in one that there is not
  EXPECT_FALSE(runs({0x0e}));                                           // cut short
  EXPECT_FALSE(runs({0x0e, 0x80}));                                     // a number without an end
  EXPECT_FALSE(runs({0x14, 0x06, 0x02}));                               // val_offset
  EXPECT_FALSE(runs({0x3f}));                                           // no instruction
  EXPECT_FALSE(runs(std::vector<std::uint8_t>(65, 0x0a)));              // saved and saved again
}

TEST(LookThrough, Expressions) {
  const auto runs = [](std::vector<std::uint8_t> expression) {
    expression.insert(expression.begin(), {0x16, 0x06, static_cast<std::uint8_t>(expression.size())});
    return LookThrough(expression).has_value();
  };
  EXPECT_TRUE(runs({0x76, 0x78, 0x06}));                                                  // breg6 -8, deref
  EXPECT_TRUE(runs({0x77, 0x08, 0x80, 0x00, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22}));  // of a linkage table
  EXPECT_FALSE(runs({0x77, 0x80}));                                              // an operand that is cut short
  EXPECT_FALSE(runs({0x2f, 0xfd, 0xff}));                                        // a jump to itself
  EXPECT_FALSE(runs({0x0e, 0, 0, 0, 0, 0, 0, 0, 0x80, 0x09, 0xff, 0x1b}));       // a division that traps
  EXPECT_FALSE(LookThrough(std::vector<std::uint8_t>{0x0f, 0x7f, 0x76, 0x78}));  // longer than what is left
}

TEST(LookThrough, WhatTheySay) {
  EXPECT_TRUE(LookThrough(std::vector<std::uint8_t>{0x0c, 0x07, 0x08, 0x90, 0x01})->defines_frame);
  EXPECT_TRUE(LookThrough(std::vector<std::uint8_t>{0x0f, 0x02, 0x76, 0x78})->defines_frame);
  EXPECT_FALSE(LookThrough(std::vector<std::uint8_t>{0x0e, 0x10})->defines_frame);
  const auto looked = LookThrough(std::vector<std::uint8_t>{0x41, 0x2d, 0x0e, 0x2d, 0x44, 0x2d});
  ASSERT_TRUE(looked);
  EXPECT_EQ(looked->negations, (std::vector<std::uint64_t>{1, 5}));
}

#if defined(__x86_64__)
TEST(Processor, CallInstructions) {
  struct At : Reader {
    explicit At(std::vector<std::uint8_t> code) : bytes(std::move(code)) {}
    bool Read(std::uint64_t address, void* to, std::size_t count) override {
      if (address < 0x1000 || address - 0x1000 + count > bytes.size()) return false;
      std::memcpy(to, bytes.data() + (address - 0x1000), count);
      return true;
    }
    std::vector<std::uint8_t> bytes;
  };
  const auto before = [](std::vector<std::uint8_t> instruction) {
    std::vector<std::uint8_t> code(16 - instruction.size(), 0x90);
    code.insert(code.end(), instruction.begin(), instruction.end());
    At at(code);
    return processor::CallBefore(&at, 0x1010);
  };
  const auto direct = before({0xe8, 0xf0, 0xff, 0xff, 0xff});
  ASSERT_TRUE(direct);
  EXPECT_EQ(direct->target, 0x1000u);
  for (const std::vector<std::uint8_t>& code : std::vector<std::vector<std::uint8_t>>{{0xff, 0xd0},
                                                                                      {0x41, 0xff, 0xd4},
                                                                                      {0xff, 0x13},
                                                                                      {0xff, 0x50, 0x08},
                                                                                      {0xff, 0x54, 0x24, 0x08},
                                                                                      {0xff, 0x15, 1, 2, 3, 4},
                                                                                      {0xff, 0x90, 1, 2, 3, 4},
                                                                                      {0xff, 0x94, 0x24, 1, 2, 3, 4},
                                                                                      {0xff, 0x14, 0xd8},
                                                                                      {0xff, 0x14, 0xc5, 1, 2, 3, 4}}) {
    const auto call = before(code);
    ASSERT_TRUE(call);
    EXPECT_FALSE(call->target);
  }
  EXPECT_FALSE(before({0x90}));
  EXPECT_FALSE(before({0xff, 0xe0}));              // jmp *%rax
  EXPECT_FALSE(before({0xff, 0x25, 1, 2, 3, 4}));  // jmp *slot
}
#endif

}  // namespace
}  // namespace ncclwatch::stacks
