// Where the registers of a caller are, as a module's call frame information tells.
#pragma once

#include <cstdint>

#include "shim/lifecycle/words/registers.h"

namespace ncclwatch::shim {

struct RegisterRule {
  enum Kind : std::uint8_t { kSame, kUndefined, kAtOffset, kIsOffset, kRegister, kAtExpression, kIsExpression };
  Kind kind = kSame;
  std::uint64_t value = 0;  // offset from the CFA, number of a register, or address of an expression
  std::uint64_t bytes = 0;  // of the expression
};

struct Row {
  bool by_expression = false;
  std::uint64_t cfa_register = 0;
  std::uint64_t cfa_value = 0;  // offset, or address of an expression
  std::uint64_t cfa_bytes = 0;
  RegisterRule rules[Registers::kCount];
};

// What one step works in, of one thread at a time. Some KiB: a signal handler keeps it elsewhere, since alternate
// signal stacks are small.
struct StepWork {
  static constexpr int kRemembered = 4;  // nested DW_CFA_remember_state; compilers use one
  Row row;
  Row initial;
  Row remembered[kRemembered];
  Registers before;  // of the step in progress
};

}  // namespace ncclwatch::shim
