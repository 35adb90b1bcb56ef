#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>

#include <elf.h>

#include <array>
#include <cerrno>

#include "analyzer/stacks/unwind/processor.h"

namespace ncclwatch::stacks::processor {
namespace {

// DWARF numbers, Procedure Call Standard for the Arm 64-bit Architecture.
constexpr unsigned kX29 = 29, kX30 = 30, kSp = 31;
constexpr std::array<unsigned, 11> kPreservedArm = {19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29};
constexpr std::uint64_t kInstruction = 4;

std::uint64_t Extended(std::uint32_t instruction, unsigned bits) {  // the signed field in the lowest bits, times 4
  const auto moved = static_cast<std::int64_t>(std::uint64_t{instruction} << (64 - bits));
  return static_cast<std::uint64_t>(moved >> (64 - bits)) * kInstruction;
}

}  // namespace

const unsigned kStackPointer = kSp, kFramePointer = kX29, kLink = kX30;
const unsigned kReturnColumn = kX30, kProgramCounter = 32;
const std::uint64_t kStackAlignment = 16;

std::span<const unsigned> Preserved() { return kPreservedArm; }

void SetArguments(const std::array<std::uint64_t, 6>& arguments, Registers* registers) {
  for (unsigned i = 0; i < arguments.size(); ++i) registers->Set(i, arguments[i]);
}

// Signature and tag lie above the 48 bits that Linux gives to programs which do not ask for more.
std::uint64_t PlainAddress(std::uint64_t address) { return address & ((std::uint64_t{1} << 48) - 1); }

std::optional<CallSite> CallBefore(Reader* code, std::uint64_t return_address) {
  if (return_address % kInstruction != 0) return std::nullopt;
  const auto before = code->Value<std::uint32_t>(return_address - kInstruction);
  if (!before) return std::nullopt;
  if ((*before & 0xfc000000u) == 0x94000000u) return CallSite{return_address - kInstruction + Extended(*before, 26)};
  // blr, and blraa and its like that check a signature
  if ((*before & 0xfffffc1fu) == 0xd63f0000u || (*before & 0xfefff800u) == 0xd63f0800u) return CallSite{};
  return std::nullopt;
}

std::optional<std::uint64_t> StubTarget(Reader* memory, std::uint64_t stub) {
  // [bti c] adrp x16, page; ldr x17, [x16, #offset]
  auto first = memory->Value<std::uint32_t>(stub);
  if (first && *first == 0xd503245fu) {
    stub += kInstruction;
    first = memory->Value<std::uint32_t>(stub);
  }
  const auto second = memory->Value<std::uint32_t>(stub + kInstruction);
  if (!first || !second || (*first & 0x9f00001fu) != 0x90000010u || (*second & 0xffc003ffu) != 0xf9400211u)
    return std::nullopt;
  const std::uint32_t pages = ((*first >> 5 & 0x7ffffu) << 2) | (*first >> 29 & 3u);
  const auto distance = static_cast<std::int64_t>(std::uint64_t{pages} << 43) >> 43;
  const std::uint64_t page = (stub & ~std::uint64_t{4095}) + static_cast<std::uint64_t>(distance) * 4096;
  return memory->Value<std::uint64_t>(page + (*second >> 10 & 0xfffu) * 8);
}

bool ReadRegisters(int tid, Registers* registers) {
  user_regs_struct from{};
  iovec all{&from, sizeof(from)};
  if (ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &all) != 0 || all.iov_len != sizeof(from)) return false;
  for (unsigned i = 0; i < kSp; ++i) registers->Set(i, from.regs[i]);
  registers->Set(kSp, from.sp);
  registers->pc = from.pc;
  return true;
}

// Here the kernel has settled how the call ends before the stop, and gives out no register to begin it anew with.
bool ForgiveInterruption(int tid) {
  user_regs_struct from{};
  iovec all{&from, sizeof(from)};
  return ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &all) == 0 && from.regs[0] != static_cast<std::uint64_t>(-EINTR);
}

}  // namespace ncclwatch::stacks::processor
