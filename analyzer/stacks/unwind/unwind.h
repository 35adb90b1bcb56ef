// From the registers of a thread and its stack to the addresses that it will return to.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analyzer/stacks/base/modules.h"
#include "analyzer/stacks/base/registers.h"

namespace ncclwatch::stacks {

inline constexpr std::size_t kMostFrames = 512;

struct RawFrame {
  std::uint64_t pc = 0;
  bool exact = false;    // pc is where it stands; else the instruction after a call, and pc - 1 lies in the call
  bool guessed = false;  // by likeness: something needed to be sure of it was not known
  Registers registers;   // that are known there
  std::optional<std::uint64_t> base;  // the stack pointer before the call of this function
};

enum class Ending : std::uint8_t {
  kOutermost,   // where the thread began
  kUnknown,     // a register is needed that is not known
  kNoTable,     // code that nothing describes
  kUnreadable,  // memory that could not be read
  kNonsense,    // a frame that cannot be
  kCut,         // more than kMostFrames
};

struct Walk {
  std::vector<RawFrame> frames;  // innermost first
  Ending ending = Ending::kOutermost;
  // Everything follows from what was known.
  bool sure() const;
};

// `stack` is the reader for the stack; code and tables are read through `modules` and its files, slots of the linkage
// tables through `memory`.
Walk Unwind(const Registers& from, Reader* stack, Memory* memory, Modules* modules);

}  // namespace ncclwatch::stacks
