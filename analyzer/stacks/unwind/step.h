// One step from a function to its caller, by libunwind and what unwind tables say: from the registers that are known to
// those that then are.
#pragma once

#include <cstdint>
#include <optional>

#include "analyzer/stacks/base/modules.h"
#include "analyzer/stacks/base/registers.h"

struct unw_addr_space;

namespace ncclwatch::stacks {

// Where a thread stands: in `module` if it has one, at `registers.pc`, or in the call before it unless `exact`.
struct Place {
  const Registers& registers;
  bool exact;
  const Module* module;
  Reader* stack;
};

struct Step {
  enum class Result : std::uint8_t {
    kCaller,
    kOutermost,   // the tables say that there is no caller
    kNoTable,     // no table is about this code, or none that can be used
    kUnknown,     // the register `missing` is needed, and not known
    kUnreadable,  // memory of the stack that could not be read
  };
  Result result = Result::kNoTable;
  Registers caller;  // kCaller
  unsigned missing = kRegisters;
  bool signal_frame = false;  // left: the caller was interrupted, it did not call
};

// How a function's frame lies that cannot be left for want of a register.
struct Shape {
  std::uint64_t function = 0;                // first address of the stretch of code that it is about
  std::int64_t return_offset = 0;            // of the return address, to the frame address
  std::optional<std::int64_t> frame_offset;  // of the frame address to the missing register; none if by an expression
};

// libunwind's cache of what tables say, by address: one process's modules, one thread's.
class Stepper : public Modules::Learnt {
 public:
  Stepper();
  ~Stepper() override;
  Stepper(const Stepper&) = delete;
  Stepper& operator=(const Stepper&) = delete;

  Step ToCaller(const Place& place);
  // None if there is another one that is missing, or the return address is not on the stack.
  std::optional<Shape> ShapeAt(const Place& place, unsigned missing);

 private:
  unw_addr_space* space_;
};

}  // namespace ncclwatch::stacks
