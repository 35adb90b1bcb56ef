// Samples: a thread that is sampled is unwound to the same frames, and what is wrong with a sample costs only frames.
#include "analyzer/stacks/sample.h"

#include <elf.h>
#include <gtest/gtest.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iterator>
#include <random>

#include "analyzer/stacks/names/name_frames.h"

namespace ncclwatch::stacks {
namespace {

constexpr std::size_t kStack = 16 << 10;

std::int64_t Realtime() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

void SetRegisters(const ucontext_t& context, format::SampledThread* thread) {
#if defined(__x86_64__)
  constexpr int kOrder[16] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP,
                              REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
  for (int i = 0; i < 16; ++i) thread->registers[i] = static_cast<std::uint64_t>(context.uc_mcontext.gregs[kOrder[i]]);
  thread->pc = static_cast<std::uint64_t>(context.uc_mcontext.gregs[REG_RIP]);
  thread->known = 0xffff;
  thread->stack_address = thread->registers[7];
#else
  for (int i = 0; i < 31; ++i) thread->registers[i] = context.uc_mcontext.regs[i];
  thread->registers[31] = thread->stack_address = context.uc_mcontext.sp;
  thread->pc = context.uc_mcontext.pc;
  thread->known = 0xffffffff;
#endif
}

struct Parts {
  format::SampleHeader header{};
  format::SampledThread thread{};
  std::string maps;
  std::string stack;
};

std::vector<std::byte> Assemble(Parts parts) {
  parts.header.threads = 1;
  parts.header.maps_offset = sizeof parts.header + sizeof parts.thread;
  parts.header.maps_bytes = parts.maps.size();
  parts.thread.stack_offset = parts.header.maps_offset + parts.maps.size();
  parts.thread.stack_bytes = static_cast<std::uint32_t>(parts.stack.size());
  parts.header.bytes = parts.thread.stack_offset + parts.stack.size();
  std::vector<std::byte> bytes;
  const auto append = [&bytes](const void* from, std::size_t size) {
    const auto* first = static_cast<const std::byte*>(from);
    bytes.insert(bytes.end(), first, first + size);
  };
  append(&parts.header, sizeof parts.header);
  append(&parts.thread, sizeof parts.thread);
  append(parts.maps.data(), parts.maps.size());
  append(parts.stack.data(), parts.stack.size());
  return bytes;
}

// Copies what lies on the stack whatever it belongs to.
__attribute__((no_sanitize("address"))) void CopyStack(std::uint64_t from, std::string* to) {
  to->resize(kStack);
  for (std::size_t i = 0; i < kStack; ++i) (*to)[i] = reinterpret_cast<const volatile char*>(from)[i];
}

[[gnu::noinline]] void TakeSampleHere(Parts* parts) {
  ucontext_t context;
  getcontext(&context);
  SetRegisters(context, &parts->thread);
  CopyStack(parts->thread.stack_address, &parts->stack);
}

[[gnu::noinline]] void OneAboveTheSample(Parts* parts) {
  volatile char room[kStack] = {};  // so that what is copied is stack of this thread
  TakeSampleHere(parts);
  asm volatile("" : : "r"(room) : "memory");
}

Parts Take() {
  Parts parts;
  std::memcpy(parts.header.magic, format::kSampleMagic, sizeof parts.header.magic);
  parts.header.version = format::kSampleVersion;
#if defined(__x86_64__)
  parts.header.machine = EM_X86_64;
#else
  parts.header.machine = EM_AARCH64;
#endif
  parts.header.pid = 4711;
  parts.header.rank = 3;
  parts.header.matters = parts.thread.thread = 4712;
  parts.header.at_real_ns = Realtime();
  parts.thread.state = static_cast<std::uint32_t>(format::Sampled::kWhole);
  std::ifstream maps("/proc/self/maps");
  parts.maps.assign(std::istreambuf_iterator<char>(maps), {});
  OneAboveTheSample(&parts);
  return parts;
}

std::vector<std::string> Functions(std::vector<std::byte> bytes) {
  std::string reason;
  const auto process = SampledProcess::Parse(std::move(bytes), &reason);
  if (!process) return {};
  const ProcessStacks stacks = ReadSample(process.get());
  std::vector<std::string> names;
  for (const Thread& thread : stacks.threads)
    for (const Frame& frame : thread.frames) names.push_back(frame.function);
  return names;
}

bool Has(const std::vector<std::string>& names, const std::string& wanted) {
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return name.find(wanted) != std::string::npos; });
}

TEST(Sample, IsUnwoundToItsCallers) {
  const std::vector<std::string> names = Functions(Assemble(Take()));
  ASSERT_GE(names.size(), 2u);
  EXPECT_NE(names[0].find("TakeSampleHere"), std::string::npos) << names[0];
  EXPECT_NE(names[1].find("OneAboveTheSample"), std::string::npos) << names[1];
}

TEST(Sample, SaysWhoseItIs) {
  std::string reason;
  const auto process = SampledProcess::Parse(Assemble(Take()), &reason);
  ASSERT_TRUE(process) << reason;
  const ProcessStacks stacks = ReadSample(process.get());
  EXPECT_EQ(stacks.pid, 4711);
  EXPECT_EQ(stacks.rank, 3);
  EXPECT_EQ(stacks.matters, 4712);
}

TEST(Sample, AShortStackEndsTheFrames) {
  Parts parts = Take();
  parts.stack.resize(64);
  std::string reason;
  const auto process = SampledProcess::Parse(Assemble(parts), &reason);
  ASSERT_TRUE(process) << reason;
  const Walk walk = process->Unwind(process->threads().front());
  EXPECT_FALSE(Has(Functions(Assemble(parts)), "OneAboveTheSample"));
  EXPECT_FALSE(walk.frames.empty());
  EXPECT_NE(walk.ending, Ending::kOutermost);
}

TEST(Sample, ACallThroughAWildPointerIsUnwoundFromItsCaller) {
  Parts parts = Take();
#if defined(__x86_64__)
  const std::uint64_t caller = parts.thread.pc;  // it is behind the call of getcontext()
  parts.stack.insert(0, reinterpret_cast<const char*>(&caller), sizeof caller);
  parts.thread.registers[7] -= sizeof caller;
  parts.thread.stack_address -= sizeof caller;
#else
  parts.thread.registers[30] = parts.thread.pc;
#endif
  parts.thread.pc = 0x10;
  const std::vector<std::string> names = Functions(Assemble(parts));
  ASSERT_GE(names.size(), 3u);
  EXPECT_EQ(names[0], "");
  EXPECT_NE(names[1].find("TakeSampleHere"), std::string::npos) << names[1];
  EXPECT_NE(names[2].find("OneAboveTheSample"), std::string::npos) << names[2];
}

TEST(Sample, FilesThatHaveChangedSinceAreNotUsed) {
  Parts parts = Take();
  parts.header.at_real_ns = 0;
  EXPECT_FALSE(Has(Functions(Assemble(parts)), "TakeSampleHere"));
}

TEST(Sample, OfARunningThreadHasNoFrames) {
  Parts parts = Take();
  parts.thread.state = static_cast<std::uint32_t>(format::Sampled::kRuns);
  EXPECT_TRUE(Functions(Assemble(parts)).empty());
}

TEST(Sample, OfANewerVersionOrAnotherProcessorIsRefused) {
  std::string reason;
  Parts parts = Take();
  parts.header.version = format::kSampleVersion + 1;
  EXPECT_FALSE(SampledProcess::Parse(Assemble(parts), &reason));
  EXPECT_NE(reason.find("newer"), std::string::npos);
  parts = Take();
  parts.header.machine = EM_PPC64;
  EXPECT_FALSE(SampledProcess::Parse(Assemble(parts), &reason));
  EXPECT_NE(reason.find("processor"), std::string::npos);
}

TEST(Sample, CutAnywhereItIsRefusedOrUnwoundPartly) {
  const std::vector<std::byte> whole = Assemble(Take());
  for (std::size_t size = 0; size < whole.size(); size += 97)
    Functions({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)});
}

TEST(Sample, DamagedAnywhereItIsRefusedOrUnwoundPartly) {
  const std::vector<std::byte> whole = Assemble(Take());
  std::minstd_rand random(4711);
  for (int i = 0; i < 300; ++i) {
    std::vector<std::byte> bytes = whole;
    const std::size_t head = sizeof(format::SampleHeader) + sizeof(format::SampledThread);
    for (int flips = 0; flips < 8; ++flips)
      bytes[random() % (i % 2 == 0 ? head : bytes.size())] = static_cast<std::byte>(random());
    Functions(std::move(bytes));
  }
}

}  // namespace
}  // namespace ncclwatch::stacks
