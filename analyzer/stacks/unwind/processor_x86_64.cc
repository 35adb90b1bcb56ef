#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>

#include <elf.h>

#include <array>
#include <cerrno>

#include "analyzer/stacks/unwind/interrupted.h"
#include "analyzer/stacks/unwind/processor.h"

namespace ncclwatch::stacks::processor {
namespace {

// DWARF numbers, System V ABI for x86-64.
enum : unsigned { kRax, kRdx, kRcx, kRbx, kRsi, kRdi, kRbp, kRsp, kR8, kR9, kR10, kR11, kR12, kR13, kR14, kR15 };
constexpr std::array<unsigned, 6> kPreservedX86 = {kRbx, kRbp, kR12, kR13, kR14, kR15};

bool GetAll(int tid, user_regs_struct* registers) {
  iovec all{registers, sizeof(*registers)};
  return ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &all) == 0 && all.iov_len == sizeof(*registers);
}

}  // namespace

const unsigned kStackPointer = kRsp, kFramePointer = kRbp, kLink = kRegisters;
const unsigned kReturnColumn = 16, kProgramCounter = 16;
const std::uint64_t kStackAlignment = 16;

std::span<const unsigned> Preserved() { return kPreservedX86; }

void SetArguments(const std::array<std::uint64_t, 6>& arguments, Registers* registers) {
  constexpr std::array<unsigned, 6> kOrder = {kRdi, kRsi, kRdx, kR10, kR8, kR9};
  for (std::size_t i = 0; i < kOrder.size(); ++i) registers->Set(kOrder[i], arguments[i]);
}

std::uint64_t PlainAddress(std::uint64_t address) { return address; }

std::optional<CallSite> CallBefore(Reader* code, std::uint64_t return_address) {
  constexpr std::size_t kLongest = 8;  // of the instructions looked for, with a prefix
  std::array<std::uint8_t, kLongest> bytes{};
  if (return_address < kLongest || !code->Read(return_address - kLongest, bytes.data(), kLongest)) return std::nullopt;
  const auto before = [&](std::size_t back) { return bytes[kLongest - back]; };
  if (before(5) == 0xe8) {  // call rel32
    std::int32_t distance = 0;
    if (!code->Read(return_address - 4, &distance, sizeof(distance))) return std::nullopt;
    return CallSite{return_address + static_cast<std::uint64_t>(std::int64_t{distance})};
  }
  // call r/m64 is ff /2: register (2 bytes), [register] (2, 3 with SIB), with disp8 (3, 4), with disp32
  // or nothing but it (6, 7).
  for (const std::size_t length : {2, 3, 4, 6, 7}) {
    if (before(length) != 0xff || (before(length - 1) & 0x38) != 0x10) continue;
    const unsigned mode = before(length - 1) >> 6, low = before(length - 1) & 7;
    const bool sib = mode != 3 && low == 4;
    const bool no_base = mode == 0 && (sib ? length > 2 && (before(length - 2) & 7) == 5 : low == 5);
    const std::size_t displacement = mode == 1 ? 1 : (mode == 2 || no_base) ? 4 : 0;
    if (2 + (sib ? 1 : 0) + displacement == length) return CallSite{};
  }
  return std::nullopt;
}

std::optional<std::uint64_t> StubTarget(Reader* memory, std::uint64_t stub) {
  // [endbr64] [bnd] jmp *slot(%rip)
  std::array<std::uint8_t, 11> bytes{};
  if (!memory->Read(stub, bytes.data(), bytes.size())) return std::nullopt;
  std::size_t at = 0;
  if (bytes[0] == 0xf3 && bytes[1] == 0x0f && bytes[2] == 0x1e && bytes[3] == 0xfa) at = 4;
  if (bytes[at] == 0xf2) ++at;
  if (bytes[at] != 0xff || bytes[at + 1] != 0x25) return std::nullopt;
  const auto distance = memory->Value<std::int32_t>(stub + at + 2);
  if (!distance) return std::nullopt;
  return memory->Value<std::uint64_t>(stub + at + 6 + static_cast<std::uint64_t>(std::int64_t{*distance}));
}

bool ReadRegisters(int tid, Registers* registers) {
  user_regs_struct from{};
  if (!GetAll(tid, &from)) return false;
  const std::array<std::uint64_t, 16> in_order = {from.rax, from.rdx, from.rcx, from.rbx, from.rsi, from.rdi,
                                                  from.rbp, from.rsp, from.r8,  from.r9,  from.r10, from.r11,
                                                  from.r12, from.r13, from.r14, from.r15};
  for (unsigned i = 0; i < in_order.size(); ++i) registers->Set(i, in_order[i]);
  registers->pc = from.rip;
  return true;
}

bool ForgiveInterruption(int tid) {
  user_regs_struct registers{};
  if (!GetAll(tid, &registers)) return false;
  // During the stop the kernel has not yet decided how the call ends: it does so by this value on the way out.
  if (registers.rax != static_cast<unsigned long long>(-EINTR)) return true;
  if (static_cast<long>(registers.orig_rax) < 0) return true;  // in no call: a number of the program's own
  if (!MayBeginAnew(static_cast<long>(registers.orig_rax))) return false;
  registers.rax = static_cast<unsigned long long>(kRestartUnlessHandled);
  iovec all{&registers, sizeof(registers)};
  return ptrace(PTRACE_SETREGSET, tid, NT_PRSTATUS, &all) == 0;
}

}  // namespace ncclwatch::stacks::processor
