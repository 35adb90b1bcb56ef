// The registers that unwinding follows, by their DWARF numbers.
#pragma once

#include <ucontext.h>

#include <cstdint>

namespace ncclwatch::shim {

struct Registers {
#if defined(__x86_64__)
  static constexpr std::uint32_t kStack = 7;   // rsp
  static constexpr std::uint32_t kFrame = 6;   // rbp
  static constexpr std::uint32_t kCount = 17;  // rax to r15, and the return address
#elif defined(__aarch64__)
  static constexpr std::uint32_t kStack = 31;
  static constexpr std::uint32_t kFrame = 29;
  static constexpr std::uint32_t kLink = 30;
  static constexpr std::uint32_t kCount = 32;
#else
#error "registers of this processor are not known"
#endif
  std::uint64_t value[kCount] = {};
  std::uint64_t pc = 0;
};

// As the kernel found the thread.
void FromContext(const ucontext_t& context, Registers* registers);
// A return address without what pointer authentication has put into it.
std::uint64_t PlainAddress(std::uint64_t address);

}  // namespace ncclwatch::shim
