#include "analyzer/stacks/unwind/cfi.h"

#include <algorithm>

#include "analyzer/stacks/unwind/bytes_in_order.h"

namespace ncclwatch::stacks {
namespace {

constexpr std::uint32_t kMostEntryBytes = 1u << 20;  // of one function's description; a damaged length is larger
constexpr std::size_t kMostSavedRows = 64;           // DW_CFA_remember_state without end

enum PointerEncoding : std::uint8_t { kOmitted = 0xff, kFormat = 0x0f, kRelation = 0x70, kIndirect = 0x80 };

// A pointer in the unwind tables. `place`: the address of its first byte; `table`: of .eh_frame_hdr, for what is
// relative to it.
std::optional<std::uint64_t> Pointer(BytesInOrder* bytes, std::uint8_t encoding, std::uint64_t place,
                                     std::uint64_t table) {
  std::uint64_t value = 0;
  switch (encoding & kFormat) {
    case 0x00:
    case 0x04:
    case 0x0c: value = bytes->Take<std::uint64_t>(); break;
    case 0x01: value = bytes->Unsigned(); break;
    case 0x02: value = bytes->Take<std::uint16_t>(); break;
    case 0x03: value = bytes->Take<std::uint32_t>(); break;
    case 0x09: value = static_cast<std::uint64_t>(bytes->Signed()); break;
    case 0x0a: value = static_cast<std::uint64_t>(bytes->Take<std::int16_t>()); break;
    case 0x0b: value = static_cast<std::uint64_t>(bytes->Take<std::int32_t>()); break;
    default: return std::nullopt;
  }
  switch (encoding & kRelation) {
    case 0x00: break;
    case 0x10: value += place; break;
    case 0x30: value += table; break;
    default: return std::nullopt;
  }
  if (!bytes->ok()) return std::nullopt;
  return value;
}

// One entry of .eh_frame: a CIE, or an FDE.
struct Entry {
  std::uint64_t address = 0;  // of its first byte after the length: the CIE pointer
  std::vector<std::uint8_t> bytes;
};

std::optional<Entry> ReadEntry(ElfFile* file, std::uint64_t address) {
  std::uint64_t length = 0;
  const auto narrow = file->Value<std::uint32_t>(address);
  if (!narrow || *narrow == 0) return std::nullopt;
  length = *narrow;
  address += sizeof(std::uint32_t);
  if (length == 0xffffffffu) {
    const auto wide = file->Value<std::uint64_t>(address);
    if (!wide) return std::nullopt;
    length = *wide;
    address += sizeof(std::uint64_t);
  }
  if (length > kMostEntryBytes) return std::nullopt;
  Entry entry{address, std::vector<std::uint8_t>(length)};
  if (!file->Read(address, entry.bytes.data(), length)) return std::nullopt;
  return entry;
}

// What many functions have in common.
struct Common {
  std::uint64_t code_factor = 1;
  std::int64_t data_factor = 1;
  unsigned return_register = 0;
  std::uint8_t pointer_encoding = 0;
  bool augmented = false;
  bool signal_frame = false;
  std::vector<std::uint8_t> program;
};

// The letters after the 'z': what the augmentation data are made of.
bool ParseAugmentation(const std::string& letters, BytesInOrder* bytes, Common* common) {
  for (const char letter : letters) {
    if (letter == 'R') common->pointer_encoding = bytes->Take<std::uint8_t>();
    if (letter == 'L') bytes->Take<std::uint8_t>();
    if (letter == 'S') common->signal_frame = true;
    // The personality routine's address is of no interest, but has to be passed over.
    if (letter == 'P' && !Pointer(bytes, bytes->Take<std::uint8_t>() & kFormat, 0, 0)) return false;
  }
  return bytes->ok();
}

std::optional<Common> ParseCommon(ElfFile* file, std::uint64_t address) {
  const auto entry = ReadEntry(file, address);
  if (!entry) return std::nullopt;
  BytesInOrder bytes(entry->bytes);
  if (bytes.Take<std::uint32_t>() != 0) return std::nullopt;  // not a CIE
  const auto version = bytes.Take<std::uint8_t>();
  if (version != 1 && version != 3) return std::nullopt;
  std::string letters;
  while (const auto letter = bytes.Take<char>()) letters += letter;
  Common common;
  common.code_factor = bytes.Unsigned();
  common.data_factor = bytes.Signed();
  common.return_register = version == 1 ? bytes.Take<std::uint8_t>() : static_cast<unsigned>(bytes.Unsigned());
  if (!letters.empty()) {
    if (letters[0] != 'z') return std::nullopt;
    common.augmented = true;
    const std::uint64_t size = bytes.Unsigned();
    const std::size_t program = bytes.at() + size;
    if (!ParseAugmentation(letters.substr(1), &bytes, &common)) return std::nullopt;
    bytes.Skip(static_cast<std::int64_t>(program) - static_cast<std::int64_t>(bytes.at()));
  }
  if (!bytes.ok() || common.return_register >= kRegisters) return std::nullopt;
  common.program = bytes.Block(entry->bytes.size() - bytes.at());
  return common;
}

// The description of the function that may contain the address, by the sorted table of .eh_frame_hdr.
std::optional<std::uint64_t> FindEntry(ElfFile* file, std::uint64_t address) {
  const auto table = file->unwind_table();
  if (!table) return std::nullopt;
  std::array<std::uint8_t, 24> head{};
  if (!file->Read(table->address, head.data(), std::min<std::uint64_t>(head.size(), table->bytes))) return std::nullopt;
  BytesInOrder bytes(head);
  constexpr std::uint8_t kTableEncoding = 0x3b;  // what every linker writes: 4 bytes, relative to the table
  if (bytes.Take<std::uint8_t>() != 1) return std::nullopt;
  const auto frame_encoding = bytes.Take<std::uint8_t>(), count_encoding = bytes.Take<std::uint8_t>();
  if (bytes.Take<std::uint8_t>() != kTableEncoding) return std::nullopt;
  if (!Pointer(&bytes, frame_encoding, table->address + bytes.at(), table->address)) return std::nullopt;
  const auto count = Pointer(&bytes, count_encoding, table->address + bytes.at(), table->address);
  if (!count || *count == 0) return std::nullopt;
  const std::uint64_t rows = table->address + bytes.at();
  const auto field = [&](std::uint64_t row, std::uint64_t which) -> std::optional<std::uint64_t> {
    const auto value = file->Value<std::int32_t>(rows + row * 8 + which * 4);
    if (!value) return std::nullopt;
    return table->address + static_cast<std::uint64_t>(std::int64_t{*value});
  };
  std::uint64_t low = 0, high = *count;  // the last row that does not begin after the address is in [low, high)
  while (high - low > 1) {
    const std::uint64_t middle = low + (high - low) / 2;
    const auto begin = field(middle, 0);
    if (!begin) return std::nullopt;
    (*begin <= address ? low : high) = middle;
  }
  const auto begin = field(low, 0);
  return begin && *begin <= address ? field(low, 1) : std::nullopt;
}

// Runs the two programs (of the CIE, of the FDE) up to the address.
class Program {
 public:
  Program(const Common& common, std::uint64_t place, std::uint64_t function, std::uint64_t address)
      : common_(common), place_(place), address_(address), location_(function) {}

  bool Run(std::span<const std::uint8_t> program, Row* row) {
    BytesInOrder bytes(program);
    row_ = row;
    while (!bytes.AtEnd() && location_ <= address_)
      if (!One(&bytes)) return false;
    return bytes.ok();
  }
  void RememberInitial(const Row& row) { initial_ = row; }

 private:
  Rule* RuleOf(std::uint64_t number) { return number < kRegisters ? &row_->rules[number] : &ignored_; }
  void Set(std::uint64_t number, Rule::Kind kind, std::int64_t offset = 0) { *RuleOf(number) = Rule{kind, offset, {}}; }
  void SetExpression(BytesInOrder* bytes, Rule::Kind kind) {
    Rule* const rule = RuleOf(bytes->Unsigned());
    *rule = Rule{kind, 0, bytes->Block(bytes->Unsigned())};
  }
  void Restore(std::uint64_t number) {
    if (number < kRegisters) row_->rules[number] = initial_.rules[number];
  }
  std::int64_t Factored(std::uint64_t offset) const { return static_cast<std::int64_t>(offset) * common_.data_factor; }
  bool Advance(std::uint64_t delta) {
    location_ += delta * common_.code_factor;
    return true;
  }
  void Frame(std::uint64_t number, std::int64_t offset) {
    row_->frame_register = static_cast<unsigned>(std::min<std::uint64_t>(number, kRegisters));
    row_->frame_offset = offset;
    row_->frame_expression.clear();
  }

  bool One(BytesInOrder* bytes) {
    const auto code = bytes->Take<std::uint8_t>();
    const std::uint8_t low = code & 0x3f;
    switch (code & 0xc0) {
      case 0x40: return Advance(low);  // DW_CFA_advance_loc
      case 0x80: Set(low, Rule::Kind::kAt, Factored(bytes->Unsigned())); return true;
      case 0xc0: Restore(low); return true;
      default: return Location(low, bytes) || Frames(low, bytes) || Others(low, bytes);
    }
  }

  bool Location(std::uint8_t code, BytesInOrder* bytes) {
    switch (code) {
      case 0x00: return true;  // DW_CFA_nop
      case 0x01:               // DW_CFA_set_loc
        if (const auto to = Pointer(bytes, common_.pointer_encoding, place_ + bytes->at(), 0)) {
          location_ = *to;
          return true;
        }
        return false;
      case 0x02: return Advance(bytes->Take<std::uint8_t>());
      case 0x03: return Advance(bytes->Take<std::uint16_t>());
      case 0x04: return Advance(bytes->Take<std::uint32_t>());
      default: return false;
    }
  }

  bool Frames(std::uint8_t code, BytesInOrder* bytes) {
    switch (code) {
      case 0x0c: {  // DW_CFA_def_cfa
        const auto number = bytes->Unsigned();
        Frame(number, static_cast<std::int64_t>(bytes->Unsigned()));
        return true;
      }
      case 0x0d: Frame(bytes->Unsigned(), row_->frame_offset); return true;
      case 0x0e: row_->frame_offset = static_cast<std::int64_t>(bytes->Unsigned()); return true;
      case 0x0f:  // DW_CFA_def_cfa_expression
        row_->frame_register = kRegisters;
        row_->frame_expression = bytes->Block(bytes->Unsigned());
        return true;
      case 0x12: {  // DW_CFA_def_cfa_sf
        const auto number = bytes->Unsigned();
        Frame(number, bytes->Signed() * common_.data_factor);
        return true;
      }
      case 0x13: row_->frame_offset = bytes->Signed() * common_.data_factor; return true;
      default: return false;
    }
  }

  bool Others(std::uint8_t code, BytesInOrder* bytes) {
    using Kind = Rule::Kind;
    const auto number = [&] { return bytes->Unsigned(); };
    switch (code) {
      case 0x05:    // DW_CFA_offset_extended
      case 0x11:    // DW_CFA_offset_extended_sf
      case 0x14:    // DW_CFA_val_offset
      case 0x15:    // DW_CFA_val_offset_sf
      case 0x2f: {  // DW_CFA_GNU_negative_offset_extended
        const auto which = number();
        const bool plain = code == 0x05 || code == 0x14 || code == 0x2f;
        std::int64_t offset = plain ? Factored(bytes->Unsigned()) : bytes->Signed() * common_.data_factor;
        if (code == 0x2f) offset = -offset;
        Set(which, code == 0x14 || code == 0x15 ? Kind::kIs : Kind::kAt, offset);
        return true;
      }
      case 0x06: Restore(number()); return true;
      case 0x07: Set(number(), Kind::kUndefined); return true;
      case 0x08: Set(number(), Kind::kSame); return true;
      case 0x09: {  // DW_CFA_register
        const auto which = number();
        Set(which, Kind::kRegister, static_cast<std::int64_t>(number()));
        return true;
      }
      case 0x0a:  // DW_CFA_remember_state
        saved_.push_back(*row_);
        return saved_.size() <= kMostSavedRows;
      case 0x0b:  // DW_CFA_restore_state
        if (saved_.empty()) return false;
        *row_ = std::move(saved_.back());
        saved_.pop_back();
        return true;
      case 0x10: SetExpression(bytes, Kind::kAtExpression); return true;
      case 0x16: SetExpression(bytes, Kind::kIsExpression); return true;
      case 0x2d: return true;                     // return address signed or not (aarch64): its bits are cut off anyway
      case 0x2e: bytes->Unsigned(); return true;  // DW_CFA_GNU_args_size
      default: return false;
    }
  }

  const Common& common_;
  std::uint64_t place_;
  std::uint64_t address_;
  std::uint64_t location_;
  Row* row_ = nullptr;
  Row initial_;
  Rule ignored_;
  std::vector<Row> saved_;
};

}  // namespace

std::optional<Row> RowAt(ElfFile* file, std::uint64_t address) {
  const auto found = FindEntry(file, address);
  const auto entry = found ? ReadEntry(file, *found) : std::nullopt;
  if (!entry) return std::nullopt;
  BytesInOrder bytes(entry->bytes);
  const auto back = bytes.Take<std::uint32_t>();
  if (back == 0) return std::nullopt;  // a CIE
  const auto common = ParseCommon(file, entry->address - back);
  if (!common) return std::nullopt;
  const auto begin = Pointer(&bytes, common->pointer_encoding, entry->address + bytes.at(), 0);
  const auto size = Pointer(&bytes, common->pointer_encoding & kFormat, 0, 0);
  if (!begin || !size || address < *begin || address - *begin >= *size) return std::nullopt;
  if (common->augmented) bytes.Skip(static_cast<std::int64_t>(bytes.Unsigned()));
  const std::size_t program_at = bytes.at();
  const std::vector<std::uint8_t> program = bytes.Block(entry->bytes.size() - program_at);

  Row row;
  row.function = *begin;
  row.return_register = common->return_register;
  row.signal_frame = common->signal_frame;
  Program run(*common, entry->address + program_at, *begin, address);
  if (!bytes.ok() || !run.Run(common->program, &row)) return std::nullopt;
  run.RememberInitial(row);
  if (!run.Run(program, &row)) return std::nullopt;
  return row;
}

}  // namespace ncclwatch::stacks
