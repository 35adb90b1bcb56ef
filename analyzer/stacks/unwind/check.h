// What libunwind takes on trust. It runs call frame programs (DWARF 5, section 6.4.2) as they stand: a register number
// out of range reads past its arrays, a division may trap, a jump may never end. Files are not trusted here, so a
// program is looked through before libunwind gets it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace ncclwatch::stacks {

struct Looked {
  bool defines_frame = false;            // it says where the frame is, as one of a function's two programs has to
  std::vector<std::uint64_t> negations;  // offsets of DW_CFA_AARCH64_negate_ra_state: libunwind before 1.7 refuses it
};

// None unless each instruction is one that libunwind can run.
std::optional<Looked> LookThrough(std::span<const std::uint8_t> program);

}  // namespace ncclwatch::stacks
