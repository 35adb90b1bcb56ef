// What differs between processors when stacks are read: one file each, processor_<name>.cc.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "analyzer/stacks/base/memory.h"
#include "analyzer/stacks/base/registers.h"

namespace ncclwatch::stacks::processor {

extern const unsigned kStackPointer, kFramePointer;  // DWARF numbers
// Of the return address where a function without a frame of its own has it, kRegisters if that is on the stack.
extern const unsigned kLink;
extern const unsigned kReturnColumn;         // of the return address in unwind tables
extern const unsigned kProgramCounter;       // the one after all others
extern const std::uint64_t kStackAlignment;  // of the stack pointer at a call

// Registers that a function gives back as it got them, besides the stack pointer.
std::span<const unsigned> Preserved();

// What of a system call's arguments is still in the registers while it waits.
void SetArguments(const std::array<std::uint64_t, 6>& arguments, Registers* registers);

// Without the bits that sign it (aarch64 pointer authentication) or tag it.
std::uint64_t PlainAddress(std::uint64_t address);

// The call instruction that ends where a return address points.
struct CallSite {
  std::optional<std::uint64_t> target;  // in the process; none if the call goes through a register or memory
};
std::optional<CallSite> CallBefore(Reader* code, std::uint64_t return_address);

// Where a stub of the linkage table that begins here jumps to, as its slot has it now; none if it is no such stub.
std::optional<std::uint64_t> StubTarget(Reader* memory, std::uint64_t stub);

// Of a thread in a ptrace stop. False if it is gone.
bool ReadRegisters(int tid, Registers* registers);

// A thread in a ptrace stop whose system call was broken off for it by the stop with EINTR: lets the kernel begin that
// call anew instead, unless a handler of the application runs first. True if the thread will not see an EINTR of ours.
bool ForgiveInterruption(int tid);

}  // namespace ncclwatch::stacks::processor
