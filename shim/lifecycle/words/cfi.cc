#include "shim/lifecycle/words/cfi.h"

#include "shim/lifecycle/words/cfi_tables.h"
#include "shim/lifecycle/words/cursor.h"

namespace ncclwatch::shim {
namespace {

// Runs the instructions of a CIE or FDE, as far as they concern the place (DWARF 4, section 7.23).
class Program {
 public:
  Program(const Tables& tables, StepWork* work) : tables_(tables), work_(*work), row_(work->row) {}

  // False if an instruction is not known. `place`: where unwinding begins; `begin`: where the instructions do.
  bool Run(std::uint64_t code, std::uint64_t end, std::uint64_t begin, std::uint64_t place) {
    Cursor cursor(code, end);
    location_ = begin;
    while (!cursor.done() && location_ <= place)
      if (!Step(&cursor)) return false;
    return !cursor.failed();
  }

 private:
  using Rule = RegisterRule;

  void Set(std::uint64_t number, Rule::Kind kind, std::uint64_t value, std::uint64_t bytes = 0) {
    if (number < Registers::kCount) row_.rules[number] = {kind, value, bytes};
  }
  std::uint64_t Factored(std::int64_t offset) const { return static_cast<std::uint64_t>(offset * tables_.data_factor); }
  void Advance(std::uint64_t delta) { location_ += delta * tables_.code_factor; }

  bool Step(Cursor* cursor) {
    const unsigned char byte = cursor->Byte();
    const unsigned char low = byte & 0x3f;
    switch (byte & 0xc0) {
      case 0x40: Advance(low); return true;
      case 0x80: Set(low, Rule::kAtOffset, Factored(static_cast<std::int64_t>(cursor->Unsigned()))); return true;
      case 0xc0:
        if (low < Registers::kCount) row_.rules[low] = work_.initial.rules[low];
        return true;
      default: return Extended(low, cursor) || Cfa(low, cursor) || Rules(low, cursor);
    }
  }

  // Locations and remembered rows.
  bool Extended(unsigned char operation, Cursor* cursor) {
    switch (operation) {
      case 0x00: return true;                                               // nop
      case 0x01: return ReadPointer(tables_.pointers, cursor, &location_);  // set_loc
      case 0x02: Advance(cursor->Fixed<std::uint8_t>()); return true;       // advance_loc1
      case 0x03: Advance(cursor->Fixed<std::uint16_t>()); return true;      // advance_loc2
      case 0x04: Advance(cursor->Fixed<std::uint32_t>()); return true;      // advance_loc4
      case 0x0a:                                                            // remember_state
        if (depth_ == StepWork::kRemembered) return false;
        work_.remembered[depth_++] = row_;
        return true;
      case 0x0b:  // restore_state
        if (depth_ == 0) return false;
        row_ = work_.remembered[--depth_];
        return true;
      case 0x2d: return true;                      // AARCH64_negate_ra_state: PlainAddress allows for it
      case 0x2e: cursor->Unsigned(); return true;  // GNU_args_size
      default: return false;
    }
  }

  bool Cfa(unsigned char operation, Cursor* cursor) {
    switch (operation) {
      case 0x0c:  // def_cfa
        row_.by_expression = false;
        row_.cfa_register = cursor->Unsigned();
        row_.cfa_value = cursor->Unsigned();
        return true;
      case 0x0d: row_.cfa_register = cursor->Unsigned(); return true;  // def_cfa_register
      case 0x0e: row_.cfa_value = cursor->Unsigned(); return true;     // def_cfa_offset
      case 0x0f:                                                       // def_cfa_expression
        row_.by_expression = true;
        row_.cfa_bytes = cursor->Unsigned();
        row_.cfa_value = cursor->at();
        cursor->MoveTo(cursor->at() + row_.cfa_bytes);
        return true;
      case 0x12:  // def_cfa_sf
        row_.by_expression = false;
        row_.cfa_register = cursor->Unsigned();
        row_.cfa_value = Factored(cursor->Signed());
        return true;
      case 0x13: row_.cfa_value = Factored(cursor->Signed()); return true;  // def_cfa_offset_sf
      default: return false;
    }
  }

  bool Rules(unsigned char operation, Cursor* cursor) {
    const std::uint64_t number = cursor->Unsigned();
    switch (operation) {
      case 0x05: Set(number, Rule::kAtOffset, Factored(static_cast<std::int64_t>(cursor->Unsigned()))); return true;
      case 0x06:  // restore_extended
        if (number < Registers::kCount) row_.rules[number] = work_.initial.rules[number];
        return true;
      case 0x07: Set(number, Rule::kUndefined, 0); return true;
      case 0x08: Set(number, Rule::kSame, 0); return true;
      case 0x09: Set(number, Rule::kRegister, cursor->Unsigned()); return true;
      case 0x11: Set(number, Rule::kAtOffset, Factored(cursor->Signed())); return true;
      case 0x14: Set(number, Rule::kIsOffset, Factored(static_cast<std::int64_t>(cursor->Unsigned()))); return true;
      case 0x15: Set(number, Rule::kIsOffset, Factored(cursor->Signed())); return true;
      case 0x10:
      case 0x16: {  // expression, val_expression
        const std::uint64_t bytes = cursor->Unsigned();
        Set(number, operation == 0x10 ? Rule::kAtExpression : Rule::kIsExpression, cursor->at(), bytes);
        cursor->MoveTo(cursor->at() + bytes);
        return true;
      }
      default: return false;
    }
  }

  const Tables& tables_;
  StepWork& work_;
  Row& row_;
  std::uint64_t location_ = 0;
  int depth_ = 0;
};

bool Recover(const RegisterRule& rule, std::uint64_t cfa, const Registers& before, std::uint64_t own,
             std::uint64_t* value) {
  std::uint64_t at = 0;
  switch (rule.kind) {
    case RegisterRule::kAtOffset: return ReadSelf(cfa + rule.value, value);
    case RegisterRule::kIsOffset: *value = cfa + rule.value; return true;
    case RegisterRule::kRegister:
      if (rule.value >= Registers::kCount) return false;
      *value = before.value[rule.value];
      return true;
    case RegisterRule::kAtExpression: return Evaluate(rule.value, rule.bytes, before, &cfa, &at) && ReadSelf(at, value);
    case RegisterRule::kIsExpression: return Evaluate(rule.value, rule.bytes, before, &cfa, value);
    default: *value = own; return true;
  }
}

bool CanonicalFrame(const Row& row, const Registers& registers, std::uint64_t* cfa) {
  if (row.by_expression) return Evaluate(row.cfa_value, row.cfa_bytes, registers, nullptr, cfa);
  if (row.cfa_register >= Registers::kCount) return false;
  *cfa = registers.value[row.cfa_register] + row.cfa_value;
  return true;
}

}  // namespace

Stepped StepByTable(std::uint64_t eh_frame_hdr, bool exact, Registers* registers, StepWork* work) {
  const std::uint64_t place = exact ? registers->pc : registers->pc - 1;
  Tables tables;
  if (!FindTables(eh_frame_hdr, place, &tables)) return Stepped::kNo;
  work->row = work->initial = Row{};
  Program program(tables, work);
  if (!program.Run(tables.cie_code, tables.cie_end, 0, 0)) return Stepped::kNo;
  work->initial = work->row;
  if (!program.Run(tables.fde_code, tables.fde_end, tables.begin, place)) return Stepped::kNo;
  std::uint64_t cfa = 0;
  Registers& before = work->before;
  before = *registers;
  if (tables.return_register >= Registers::kCount || !CanonicalFrame(work->row, before, &cfa)) return Stepped::kNo;
  if (work->row.rules[tables.return_register].kind == RegisterRule::kUndefined) return Stepped::kEnd;
  registers->value[Registers::kStack] = cfa;
  for (std::uint32_t i = 0; i < Registers::kCount; ++i) {
    if (work->row.rules[i].kind == RegisterRule::kSame) continue;
    if (Recover(work->row.rules[i], cfa, before, before.value[i], &registers->value[i])) continue;
    *registers = before;
    return Stepped::kNo;
  }
  registers->pc = PlainAddress(registers->value[tables.return_register]);
  if (registers->pc == 0) return Stepped::kEnd;
  return tables.signal ? Stepped::kSignal : Stepped::kCaller;
}

}  // namespace ncclwatch::shim
