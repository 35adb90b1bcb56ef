// Unwinding this process's own threads, and the parts that the unwind tables are made of.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <thread>

#include "analyzer/stacks/elf_file.h"
#include "analyzer/stacks/read_threads.h"
#include "analyzer/stacks/unwind/bytes_in_order.h"
#include "analyzer/stacks/unwind/cfi.h"
#include "analyzer/stacks/unwind/processor.h"

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

TEST(BytesInOrder, Numbers) {
  const std::array<std::uint8_t, 8> bytes = {0xe5, 0x8e, 0x26, 0x7f, 0x80, 0x7f, 0x2a, 0x00};
  BytesInOrder order(bytes);
  EXPECT_EQ(order.Unsigned(), 624485u);
  EXPECT_EQ(order.Signed(), -1);
  EXPECT_EQ(order.Signed(), -128);
  EXPECT_EQ(order.Take<std::uint16_t>(), 0x2au);
  EXPECT_TRUE(order.AtEnd() && order.ok());
  EXPECT_EQ(order.Take<std::uint8_t>(), 0u);
  EXPECT_FALSE(order.ok());
}

TEST(BytesInOrder, NumbersWithoutEnd) {
  const std::vector<std::uint8_t> bytes(100, 0xff);
  BytesInOrder order(bytes);
  order.Unsigned();
  EXPECT_FALSE(order.ok());
  BytesInOrder other(bytes);
  EXPECT_TRUE(other.Block(101).empty());
  EXPECT_FALSE(other.ok());
  BytesInOrder back(bytes);
  back.Skip(-1);
  EXPECT_FALSE(back.ok());
}

class Nothing : public Reader {
 public:
  bool Read(std::uint64_t, void*, std::size_t) override { return false; }
};

class Counting : public Reader {  // the byte at an address is the address's lowest one
 public:
  bool Read(std::uint64_t address, void* to, std::size_t bytes) override {
    for (std::size_t i = 0; i < bytes; ++i) static_cast<std::uint8_t*>(to)[i] = static_cast<std::uint8_t>(address + i);
    return true;
  }
};

TEST(Expression, Values) {
  Registers registers;
  registers.Set(7, 0x1000);
  Counting memory;
  const auto value = [&](const Expression& expression, std::optional<std::uint64_t> initial = std::nullopt) {
    return Evaluate(expression, registers, &memory, initial);
  };
  EXPECT_EQ(value({0x77, 0x08}), 0x1008u);                         // breg7 8
  EXPECT_EQ(value({0x77, 0x78}), 0xff8u);                          // breg7 -8
  EXPECT_EQ(value({0x35, 0x33, 0x1c}), 2u);                        // 5 - 3
  EXPECT_EQ(value({0x23, 0x80, 0x01}, 1), 129u);                   // plus_uconst 128
  EXPECT_EQ(value({0x08, 0x40, 0x94, 0x02}), 0x4140u);             // deref_size 2 of 0x40
  EXPECT_EQ(value({0x31, 0x32, 0x16, 0x1c}), 1u);                  // 1 2 swap minus
  EXPECT_EQ(value({0x31, 0x28, 0x01, 0x00, 0x30, 0x37}), 7u);      // bra over lit0
  EXPECT_EQ(value({0x09, 0xff, 0x32, 0x1b}), 0u);                  // -1 / 2
  EXPECT_EQ(value({0x77, 0x80, 0x01, 0x80, 0x00}), std::nullopt);  // an operation that there is not
  EXPECT_EQ(value({0x76, 0x00}), std::nullopt);                    // a register that is not known
  EXPECT_EQ(value({0x31, 0x30, 0x1b}), std::nullopt);              // 1 / 0
  EXPECT_EQ(value({0x2f, 0xfd, 0xff}), std::nullopt);              // a jump to itself
  EXPECT_EQ(value({}), std::nullopt);
  EXPECT_EQ(value({0x22}), std::nullopt);
  Nothing nothing;
  EXPECT_EQ(Evaluate({0x31, 0x06}, registers, &nothing, std::nullopt), std::nullopt);
}

// What a file says about its own functions; damaged ones say nothing rather than crash.
TEST(Cfi, EveryByteOfItsTablesMayBeWrong) {
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
  std::vector<std::uint8_t> file;
  FILE* const input = fopen(STACKS_SAMPLE, "rb");
  ASSERT_TRUE(input);
  file.resize(4 << 20);
  file.resize(fread(file.data(), 1, file.size(), input));
  fclose(input);
  const auto whole = ElfFile::OfBytes(std::make_unique<Damaged>(&file, SIZE_MAX, 0));
  ASSERT_TRUE(whole);
  const auto function = whole->Named("WaitInsideLibrary");
  ASSERT_TRUE(function);
  const auto row = RowAt(whole.get(), function->address + 1);
  ASSERT_TRUE(row);
  EXPECT_EQ(row->function, function->address);
  EXPECT_EQ(whole->FunctionsAt({function->address + 1})[0]->name, "WaitInsideLibrary");
  const auto table = whole->Section(".eh_frame_hdr"), frames = whole->Section(".eh_frame");
  ASSERT_TRUE(table && frames);
  // The file's first kilobytes (headers, symbols) and its unwind tables; link-time address and offset are equal there.
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < 2048; ++i) places.push_back(i);
  for (const Stretch& stretch : {*table, *frames})
    for (std::size_t i = 0; i < stretch.bytes; ++i) places.push_back(stretch.address + i);
  std::size_t sane = 0;
  for (const std::size_t place : places) {
    for (const int value : {0x00, 0x7f, 0x80, 0xff}) {
      const auto damaged = ElfFile::OfBytes(std::make_unique<Damaged>(&file, place, static_cast<std::uint8_t>(value)));
      if (!damaged) continue;
      sane += RowAt(damaged.get(), function->address + 1).has_value();
      damaged->FunctionsAt({function->address + 1});
    }
  }
  EXPECT_GT(sane, places.size());
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
