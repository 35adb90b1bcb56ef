// An ELF file that has one function and what is said of it: any call frame programs.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "analyzer/stacks/base/elf_file.h"

namespace ncclwatch::stacks::testing {

inline constexpr std::uint64_t kFunction = 0x100000, kFunctionBytes = 0x1000;  // link-time

// `common` and `own`: the programs of the CIE and of the FDE; `letters` the augmentation, beginning with "zR".
std::vector<std::uint8_t> TableBytes(std::span<const std::uint8_t> common, std::span<const std::uint8_t> own,
                                     const char* letters = "zR");
// As a file; null if these bytes are none.
std::shared_ptr<ElfFile> FileOf(std::vector<std::uint8_t> bytes);

}  // namespace ncclwatch::stacks::testing
