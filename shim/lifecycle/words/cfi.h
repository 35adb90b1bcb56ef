// One step of unwinding by a module's call frame information (.eh_frame), without a lock, an allocation, or trust in
// what is read. Async-signal-safe.
//
// The tables are those of the Linux Standard Base (".eh_frame", ".eh_frame_hdr") and DWARF 4, section 6.4.
#pragma once

#include <cstdint>

#include "shim/lifecycle/words/cfi_rows.h"
#include "shim/lifecycle/words/registers.h"

namespace ncclwatch::shim {

enum class Stepped {
  kNo,      // no table covers the place, or it cannot be followed
  kCaller,  // the registers are the caller's; pc is a return address
  kSignal,  // the frame was a signal's: pc is where it found the thread
  kEnd,     // the outermost frame
};
// `exact`: pc is the instruction itself, not a return address.
Stepped StepByTable(std::uint64_t eh_frame_hdr, bool exact, Registers* registers, StepWork* work);

// The value of a DWARF expression of `bytes` bytes at `address`; false if it uses what is not known here. `first`, if
// not null, is on the stack at its beginning.
bool Evaluate(std::uint64_t address, std::uint64_t bytes, const Registers& registers, const std::uint64_t* first,
              std::uint64_t* value);

}  // namespace ncclwatch::shim
