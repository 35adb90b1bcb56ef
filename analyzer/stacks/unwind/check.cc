#include "analyzer/stacks/unwind/check.h"

#include <cstddef>
#include <string_view>

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
constexpr std::string_view kUnknown = "?";

std::string_view OperandsOfExpression(std::uint8_t operation) {
  if (operation == 0x03 || operation == 0x0e || operation == 0x0f) return "8";
  if (operation == 0x08 || operation == 0x09 || operation == 0x15 || operation == 0x94) return "1";
  if (operation == 0x0a || operation == 0x0b) return "2";
  if (operation == 0x0c || operation == 0x0d) return "4";
  if (operation == 0x10 || operation == 0x11 || operation == 0x23 || operation == 0x90) return "n";
  if (operation >= 0x70 && operation <= 0x8f) return "n";  // DW_OP_breg
  if (operation == 0x92) return "nn";
  // DW_OP_div traps, DW_OP_skip and DW_OP_bra jump: no compiler writes them here.
  if (operation == 0x1b || operation == 0x28 || operation == 0x2f) return kUnknown;
  const bool plain = operation == 0x06 || (operation >= 0x12 && operation <= 0x6f) || operation == 0x96;
  return plain ? "" : kUnknown;
}

std::string_view OperandsOfInstruction(std::uint8_t instruction) {
  switch (instruction & 0xc0) {
    case 0x40: return "";   // DW_CFA_advance_loc
    case 0x80: return "n";  // DW_CFA_offset
    case 0xc0: return "";   // DW_CFA_restore
    default: break;
  }
  switch (instruction) {
    case 0x00: return "";    // DW_CFA_nop
    case 0x02: return "1";   // DW_CFA_advance_loc1
    case 0x03: return "2";   // DW_CFA_advance_loc2
    case 0x04: return "4";   // DW_CFA_advance_loc4
    case 0x06:               // DW_CFA_restore_extended
    case 0x07:               // DW_CFA_undefined
    case 0x08: return "n";   // DW_CFA_same_value
    case 0x09: return "nr";  // DW_CFA_register
    case 0x0a:
    case 0x0b: return "";      // DW_CFA_remember_state, DW_CFA_restore_state
    case 0x0d:                 // DW_CFA_def_cfa_register
    case 0x0e:                 // DW_CFA_def_cfa_offset
    case 0x13: return "n";     // DW_CFA_def_cfa_offset_sf
    case 0x05:                 // DW_CFA_offset_extended
    case 0x0c:                 // DW_CFA_def_cfa
    case 0x11:                 // DW_CFA_offset_extended_sf
    case 0x12:                 // DW_CFA_def_cfa_sf
    case 0x2f: return "nn";    // DW_CFA_GNU_negative_offset_extended
    case 0x0f: return "e";     // DW_CFA_def_cfa_expression
    case 0x10:                 // DW_CFA_expression
    case 0x16: return "ne";    // DW_CFA_val_expression
    case 0x2d: return "";      // DW_CFA_AARCH64_negate_ra_state
    case 0x2e: return "n";     // DW_CFA_GNU_args_size
    default: return kUnknown;  // DW_CFA_val_offset among them, which libunwind does not know
  }
}

bool IsExpression(std::span<const std::uint8_t> bytes);

bool Pass(std::string_view operands, Scan* scan) {
  for (const char operand : operands) {
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
