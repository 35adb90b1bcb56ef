#include "shim/lifecycle/words/registers.h"

namespace ncclwatch::shim {

void FromContext(const ucontext_t& context, Registers* registers) {
#if defined(__x86_64__)
  constexpr int kOrder[16] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP,
                              REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
  for (int i = 0; i < 16; ++i) registers->value[i] = static_cast<std::uint64_t>(context.uc_mcontext.gregs[kOrder[i]]);
  registers->pc = static_cast<std::uint64_t>(context.uc_mcontext.gregs[REG_RIP]);
#else
  for (int i = 0; i < 31; ++i) registers->value[i] = context.uc_mcontext.regs[i];
  registers->value[Registers::kStack] = context.uc_mcontext.sp;
  registers->pc = context.uc_mcontext.pc;
#endif
}

std::uint64_t PlainAddress(std::uint64_t address) {
#if defined(__aarch64__)
  return address & 0x0000ffffffffffffull;  // user addresses have 48 bits
#else
  return address;
#endif
}

}  // namespace ncclwatch::shim
