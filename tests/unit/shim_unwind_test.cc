// Unwinding by call frame information, in several threads at once.
#include <gtest/gtest.h>
#include <link.h>
#include <ucontext.h>

#include <thread>
#include <vector>

#include "shim/lifecycle/words/cfi.h"

namespace ncclwatch::shim {
namespace {

constexpr int kThreads = 4, kTimes = 1000, kFrames = 4;
using Frames = std::vector<std::uint64_t>;

int FindOwnTable(dl_phdr_info* info, std::size_t, void* data) {
  for (int i = 0; i < info->dlpi_phnum; ++i)
    if (info->dlpi_phdr[i].p_type == PT_GNU_EH_FRAME)
      *static_cast<std::uint64_t*>(data) = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
  return 1;  // the program comes first
}

std::uint64_t OwnTable() {
  std::uint64_t table = 0;
  dl_iterate_phdr(FindOwnTable, &table);
  return table;
}

// The callers of the place at which the context was taken, all of them in this program.
[[gnu::noinline]] Frames Inner(std::uint64_t table, StepWork* work) {
  ucontext_t context;
  getcontext(&context);
  Registers registers;
  FromContext(context, &registers);
  Frames frames;
  for (int i = 0; i < kFrames; ++i) {
    if (StepByTable(table, i == 0, &registers, work) != Stepped::kCaller) break;
    frames.push_back(registers.pc);
  }
  return frames;
}
[[gnu::noinline]] Frames Middle(std::uint64_t table, StepWork* work) {
  Frames frames = Inner(table, work);
  asm volatile("" : : "r"(&frames) : "memory");
  return frames;
}
[[gnu::noinline]] Frames Outer(std::uint64_t table, StepWork* work) {
  Frames frames = Middle(table, work);
  asm volatile("" : : "r"(&frames) : "memory");
  return frames;
}

[[gnu::noinline]] void Repeat(std::uint64_t table, int times, std::vector<Frames>* found) {
  StepWork work;
  for (int i = 0; i < times; ++i) found->push_back(Outer(table, &work));
}

TEST(Unwind, SeveralThreadsAtOnceFindTheirOwnFrames) {
  const std::uint64_t table = OwnTable();
  ASSERT_NE(table, 0u);
  std::vector<Frames> alone;
  std::thread(Repeat, table, 1, &alone).join();
  ASSERT_EQ(alone[0].size(), static_cast<std::size_t>(kFrames));
  std::vector<Frames> found[kThreads];
  std::vector<std::thread> threads;
  for (auto& one : found) threads.emplace_back(Repeat, table, kTimes, &one);
  for (std::thread& thread : threads) thread.join();
  for (const auto& one : found)
    for (const Frames& frames : one) ASSERT_EQ(frames, alone[0]);
}

}  // namespace
}  // namespace ncclwatch::shim
