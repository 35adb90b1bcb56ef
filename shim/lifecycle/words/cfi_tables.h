// Finding and reading the entries of .eh_frame and .eh_frame_hdr in this process's memory (Linux Standard Base,
// "Exception Frames"). Async-signal-safe.
#pragma once

#include <cstdint>

#include "shim/lifecycle/words/cursor.h"

namespace ncclwatch::shim {

// What the entries for one place say; `code` and `end` bound the instructions.
struct Tables {
  std::uint64_t code_factor = 1;
  std::int64_t data_factor = 1;
  std::uint64_t return_register = 0;
  unsigned char pointers = 0;  // encoding of the FDE's addresses
  bool augmented = false;
  bool signal = false;
  std::uint64_t cie_code = 0, cie_end = 0;
  std::uint64_t fde_code = 0, fde_end = 0;
  std::uint64_t begin = 0;  // of the code that the FDE is about
};

// The entries that cover pc, by the sorted table of the header; false if there are none, or they cannot be read.
bool FindTables(std::uint64_t eh_frame_hdr, std::uint64_t pc, Tables* tables);

// A pointer in the given encoding (DW_EH_PE_*).
bool ReadPointer(unsigned char encoding, Cursor* from, std::uint64_t* value);

}  // namespace ncclwatch::shim
