#include "shim/lifecycle/words/cfi_tables.h"

namespace ncclwatch::shim {
namespace {

// How pointers are written, DW_EH_PE_*.
constexpr unsigned char kOmitted = 0xff;
constexpr unsigned char kRelativeToHeader4 = 0x3b;  // datarel | sdata4: what every linker writes into the search table
constexpr unsigned char kRelativeToItself = 0x10;
constexpr unsigned char kFormat = 0x0f, kApplication = 0x70, kIndirect = 0x80;

// The FDE whose code begins last before pc, in the sorted table of the header; 0 if there is none.
std::uint64_t SearchTable(std::uint64_t header, std::uint64_t pc) {
  unsigned char head[4];
  if (!ReadSelf(header, &head) || head[0] != 1 || head[2] == kOmitted || head[3] != kRelativeToHeader4) return 0;
  Cursor cursor(header + 4, header + 64);
  std::uint64_t ignored = 0, count = 0;
  if (!ReadPointer(head[1], &cursor, &ignored) || !ReadPointer(head[2], &cursor, &count)) return 0;
  struct Entry {
    std::int32_t code, fde;
  } entry{};
  const std::uint64_t table = cursor.at();
  const auto absolute = [header](std::int32_t relative) {
    return header + static_cast<std::uint64_t>(std::int64_t{relative});
  };
  std::uint64_t low = 0, high = count;  // entries before low begin at or before pc, those from high on after it
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (!ReadSelf(table + middle * sizeof entry, &entry)) return 0;
    if (absolute(entry.code) <= pc)
      low = middle + 1;
    else
      high = middle;
  }
  if (low == 0 || !ReadSelf(table + (low - 1) * sizeof entry, &entry)) return 0;
  return absolute(entry.fde);
}

// Where the content of an entry begins and ends; false for the terminator.
bool OpenEntry(std::uint64_t address, std::uint64_t* content, std::uint64_t* end) {
  std::uint32_t length = 0;
  if (!ReadSelf(address, &length) || length == 0) return false;
  *content = address + 4;
  std::uint64_t bytes = length;
  if (length == 0xffffffffu) {
    if (!ReadSelf(*content, &bytes)) return false;
    *content += 8;
  }
  *end = *content + bytes;
  return bytes < (1u << 24);
}

bool ReadCie(std::uint64_t address, Tables* tables) {
  std::uint64_t content = 0, end = 0;
  if (!OpenEntry(address, &content, &end)) return false;
  Cursor cursor(content, end);
  const auto id = cursor.Fixed<std::uint32_t>();
  const unsigned char version = cursor.Byte();
  if (id != 0 || (version != 1 && version != 3)) return false;
  char augmentation[8] = {};
  for (std::size_t i = 0;; ++i) {
    if (i == sizeof augmentation) return false;
    augmentation[i] = static_cast<char>(cursor.Byte());
    if (augmentation[i] == 0) break;
  }
  tables->code_factor = cursor.Unsigned();
  tables->data_factor = cursor.Signed();
  tables->return_register = version == 1 ? cursor.Byte() : cursor.Unsigned();
  tables->augmented = augmentation[0] == 'z';
  if (augmentation[0] != 0 && !tables->augmented) return false;
  const std::uint64_t bytes = tables->augmented ? cursor.Unsigned() : 0;
  const std::uint64_t code = cursor.at() + bytes;
  for (const char* letter = augmentation; *letter; ++letter) {
    std::uint64_t ignored = 0;
    if (*letter == 'R') tables->pointers = cursor.Byte();
    if (*letter == 'L') cursor.Byte();
    if (*letter == 'S') tables->signal = true;
    if (*letter == 'P' && !ReadPointer(cursor.Byte(), &cursor, &ignored)) return false;
  }
  tables->cie_code = code;
  tables->cie_end = end;
  return !cursor.failed();
}

bool ReadFde(std::uint64_t address, std::uint64_t pc, Tables* tables) {
  std::uint64_t content = 0, end = 0;
  if (!OpenEntry(address, &content, &end)) return false;
  Cursor cursor(content, end);
  const auto back = cursor.Fixed<std::uint32_t>();
  if (back == 0 || !ReadCie(content - back, tables)) return false;
  std::uint64_t range = 0;
  if (!ReadPointer(tables->pointers, &cursor, &tables->begin) ||
      !ReadPointer(tables->pointers & kFormat, &cursor, &range))
    return false;
  if (pc < tables->begin || pc - tables->begin >= range) return false;
  const std::uint64_t bytes = tables->augmented ? cursor.Unsigned() : 0;
  tables->fde_code = cursor.at() + bytes;
  tables->fde_end = end;
  return !cursor.failed();
}

}  // namespace

bool ReadPointer(unsigned char encoding, Cursor* from, std::uint64_t* value) {
  const std::uint64_t place = from->at();
  switch (encoding & kFormat) {
    case 0x00:
    case 0x04:
    case 0x0c: *value = from->Fixed<std::uint64_t>(); break;
    case 0x01: *value = from->Unsigned(); break;
    case 0x02: *value = from->Fixed<std::uint16_t>(); break;
    case 0x03: *value = from->Fixed<std::uint32_t>(); break;
    case 0x09: *value = static_cast<std::uint64_t>(from->Signed()); break;
    case 0x0a: *value = static_cast<std::uint64_t>(std::int64_t{from->Fixed<std::int16_t>()}); break;
    case 0x0b: *value = static_cast<std::uint64_t>(std::int64_t{from->Fixed<std::int32_t>()}); break;
    default: return false;
  }
  const unsigned char application = encoding & kApplication;
  if (application != 0 && application != kRelativeToItself) return false;
  if (application == kRelativeToItself) *value += place;
  if (encoding & kIndirect) {
    std::uint64_t there = 0;
    if (!ReadSelf(*value, &there)) return false;
    *value = there;
  }
  return !from->failed();
}

bool FindTables(std::uint64_t eh_frame_hdr, std::uint64_t pc, Tables* tables) {
  const std::uint64_t fde = SearchTable(eh_frame_hdr, pc);
  return fde != 0 && ReadFde(fde, pc, tables);
}

}  // namespace ncclwatch::shim
