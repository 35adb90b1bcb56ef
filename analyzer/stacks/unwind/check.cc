#include "analyzer/stacks/unwind/check.h"

#include <cstddef>
#include <iterator>

#include "analyzer/stacks/unwind/processor.h"

namespace ncclwatch::stacks {
namespace {

constexpr int kMostSavedRows = 64;  // DW_CFA_remember_state: libunwind allocates one each

class Scan {
 public:
  explicit Scan(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  bool ok() const { return ok_; }
  bool AtEnd() const { return !ok_ || at_ == bytes_.size(); }
  std::size_t at() const { return at_; }
  std::uint8_t Byte() {
    if (at_ == bytes_.size()) ok_ = false;
    return ok_ ? bytes_[at_++] : std::uint8_t{0};
  }
  std::uint64_t Number() {  // LEB128
    std::uint64_t value = 0;
    for (unsigned shift = 0; ok_; shift += 7) {
      const std::uint8_t byte = Byte();
      if (shift < 64) value |= std::uint64_t{byte & 0x7fu} << shift;
      if ((byte & 0x80u) == 0) break;
    }
    return value;
  }
  std::span<const std::uint8_t> Block(std::uint64_t bytes) {
    if (bytes > bytes_.size() - at_) ok_ = false;
    if (!ok_) return {};
    at_ += bytes;
    return bytes_.subspan(at_ - bytes, bytes);
  }

 private:
  std::span<const std::uint8_t> bytes_;
  std::size_t at_ = 0;
  bool ok_ = true;
};

// Operands, one letter each: 1, 2, 4, 8 bytes; n a LEB128 number; r one that is a register; e an expression. "?" is no
// operation that may be there.
using Operands = const char*;

// By number (DWARF 5, sections 7.24 and 7.7.1). DW_CFA_set_loc is left out, as no compiler writes it into .eh_frame,
// and DW_CFA_val_offset, which libunwind does not know.
constexpr Operands kInstructions[] = {
    // clang-format off
    "", "?", "1", "2", "4", "nn", "n", "n", "n", "nr", "", "", "nn", "n", "n", "e",
    "ne", "nn", "nn", "n", "?", "?", "ne", "?", "?", "?", "?", "?", "?", "?", "?", "?",
    "?", "?", "?", "?", "?", "?", "?", "?", "?", "?", "?", "?", "?", "", "n", "nn",
    // clang-format on
};

Operands OperandsOfInstruction(std::uint8_t instruction) {
  switch (instruction & 0xc0) {
    case 0x40: return "";   // DW_CFA_advance_loc
    case 0x80: return "n";  // DW_CFA_offset
    case 0xc0: return "";   // DW_CFA_restore
    default: return instruction < std::size(kInstructions) ? kInstructions[instruction] : "?";
  }
}

// Left out: what takes a type or a piece; DW_OP_div, which may trap; DW_OP_bra and DW_OP_skip, which may have no end.
Operands OperandsOfExpression(std::uint8_t operation) {
  constexpr Operands kFirst[] = {
      // clang-format off
      "?", "?", "?", "8", "?", "?", "", "?", "1", "1", "2", "2", "4", "4", "8", "8",
      "n", "n", "", "", "", "1", "", "", "?", "", "", "?", "", "", "", "",
      "", "", "", "n", "", "", "", "", "?", "", "", "", "", "", "", "?",
      // clang-format on
  };
  if (operation < std::size(kFirst)) return kFirst[operation];
  if (operation < 0x70) return "";    // DW_OP_lit, DW_OP_reg
  if (operation <= 0x90) return "n";  // DW_OP_breg, DW_OP_regx
  return operation == 0x92 ? "nn" : operation == 0x94 ? "1" : operation == 0x96 ? "" : "?";
}

bool IsExpression(std::span<const std::uint8_t> bytes);

bool Pass(Operands operands, Scan* scan) {
  for (; *operands; ++operands) {
    const char operand = *operands;
    if (operand == '?') return false;
    if (operand == 'n') scan->Number();
    if (operand == 'r' && scan->Number() > processor::kReturnColumn) return false;
    if (operand == 'e' && !IsExpression(scan->Block(scan->Number()))) return false;
    if (operand >= '1' && operand <= '8') scan->Block(static_cast<std::uint64_t>(operand - '0'));
  }
  return scan->ok();
}

bool IsExpression(std::span<const std::uint8_t> bytes) {
  Scan scan(bytes);
  while (!scan.AtEnd())
    if (!Pass(OperandsOfExpression(scan.Byte()), &scan)) return false;
  return scan.ok();
}

}  // namespace

std::optional<Looked> LookThrough(std::span<const std::uint8_t> program) {
  Looked looked;
  Scan scan(program);
  int saved = 0;
  while (!scan.AtEnd()) {
    const std::size_t at = scan.at();
    const std::uint8_t instruction = scan.Byte();
    if (!Pass(OperandsOfInstruction(instruction), &scan)) return std::nullopt;
    if (instruction == 0x0a && ++saved > kMostSavedRows) return std::nullopt;
    if (instruction == 0x0c || instruction == 0x0f || instruction == 0x12) looked.defines_frame = true;
    if (instruction == 0x2d) looked.negations.push_back(at);
  }
  if (!scan.ok()) return std::nullopt;
  return looked;
}

}  // namespace ncclwatch::stacks
