// Call frame information: what .eh_frame says about how to get from one function's frame to its caller's
// (DWARF 5, section 6.4; the LSB on .eh_frame and .eh_frame_hdr). Addresses are link-time ones.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "analyzer/stacks/elf_file.h"
#include "analyzer/stacks/unwind/registers.h"

namespace ncclwatch::stacks {

using Expression = std::vector<std::uint8_t>;

struct Rule {
  enum class Kind : std::uint8_t {
    kUnsaid,     // as the processor's conventions have it
    kUndefined,  // the caller's value is lost
    kSame,
    kAt,        // saved at frame address + offset
    kIs,        // is frame address + offset
    kRegister,  // is in another register
    kAtExpression,
    kIsExpression,
  };
  Kind kind = Kind::kUnsaid;
  std::int64_t offset = 0;  // kRegister: the number
  Expression expression;
};

// What holds at one instruction.
struct Row {
  std::uint64_t function = 0;            // first address of the stretch of code that it is about
  unsigned frame_register = kRegisters;  // frame address = this register + offset, or by the expression
  std::int64_t frame_offset = 0;
  Expression frame_expression;
  std::array<Rule, kRegisters> rules;
  unsigned return_register = 0;
  bool signal_frame = false;
};

// None if the file says nothing about this address, or what it says makes no sense.
std::optional<Row> RowAt(ElfFile* file, std::uint64_t address);

// The value of an expression; `initial` lies on its stack at the beginning if there is one.
std::optional<std::uint64_t> Evaluate(const Expression& expression, const Registers& registers, Reader* memory,
                                      std::optional<std::uint64_t> initial);

}  // namespace ncclwatch::stacks
