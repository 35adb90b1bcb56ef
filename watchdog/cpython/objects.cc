#include "watchdog/cpython/objects.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "watchdog/cpython/line_table.h"

namespace ncclwatch::cpython {
namespace {

constexpr std::size_t kMostTypeName = 64;
constexpr std::size_t kMostFunction = 500;   // characters
constexpr std::size_t kMostFile = 4096;      // characters, PATH_MAX
constexpr std::size_t kMostLines = 4 << 20;  // bytes: a module of a million lines has less
constexpr std::uint64_t kObjectAlign = 8;

void AppendUtf8(char32_t c, std::string* to) {
  constexpr char32_t kSurrogates = 0xd800, kAfterSurrogates = 0xe000, kMost = 0x10ffff;
  // A name is printed to terminals and put into JSON.
  if (c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= kSurrogates && c < kAfterSurrogates) || c > kMost) c = '?';
  const auto tail = [&](unsigned shift) { to->push_back(static_cast<char>(0x80 | (c >> shift & 0x3f))); };
  if (c < 0x80) {
    to->push_back(static_cast<char>(c));
  } else if (c < 0x800) {
    to->push_back(static_cast<char>(0xc0 | c >> 6));
    tail(0);
  } else if (c < 0x10000) {
    to->push_back(static_cast<char>(0xe0 | c >> 12));
    tail(6), tail(0);
  } else {
    to->push_back(static_cast<char>(0xf0 | c >> 18));
    tail(12), tail(6), tail(0);
  }
}

}  // namespace

std::optional<std::uint64_t> Objects::Pointer(std::uint64_t base, Field field) {
  return memory_->Value<std::uint64_t>(base + static_cast<std::uint64_t>(layout_[field]));
}

std::optional<std::int32_t> Objects::Int(std::uint64_t base, Field field) {
  return memory_->Value<std::int32_t>(base + static_cast<std::uint64_t>(layout_[field]));
}

std::string_view Objects::TypeOf(std::uint64_t object) {
  if (object == 0 || object % kObjectAlign != 0) return {};
  const auto address = Pointer(object, kObjectType);
  if (!address || *address == 0) return {};
  const auto known = type_names_.find(*address);
  if (known != type_names_.end()) return known->second;
  const auto name = Pointer(*address, kTypeName);
  const auto text = name ? memory_->Text(*name, kMostTypeName) : std::nullopt;
  if (!text) return {};
  return type_names_.emplace(*address, *text).first->second;
}

bool Objects::IsA(std::uint64_t object, std::string_view type) { return TypeOf(object) == type; }

std::optional<std::string> Objects::Str(std::uint64_t object, std::size_t limit) {
  if (!IsA(object, "str")) return std::nullopt;
  const auto length = Pointer(object, kStrLength);
  const auto state = Int(object, kStrState);
  if (!length || !state) return std::nullopt;
  const auto bit = [&](Field field) { return static_cast<std::uint32_t>(*state) >> layout_[field]; };
  const std::size_t kind = bit(kStrKindBit) & 7;
  const bool ascii = (bit(kStrAsciiBit) & 1) != 0;
  // Not compact are strings of subclasses and of C interfaces that are gone: names in code are neither.
  if ((bit(kStrCompactBit) & 1) == 0 || (kind != 1 && kind != 2 && kind != 4) || (ascii && kind != 1))
    return std::nullopt;
  const std::size_t count = std::min<std::uint64_t>(*length, limit);
  const std::uint64_t data = object + static_cast<std::uint64_t>(layout_[kStrAscii]) +
                             (ascii ? 0 : static_cast<std::uint64_t>(layout_[kStrWideAfterAscii]));
  std::vector<std::uint8_t> bytes(count * kind);
  if (!memory_->Read(data, bytes.data(), bytes.size())) return std::nullopt;
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += kind) {
    char32_t c = 0;
    std::memcpy(&c, &bytes[i], kind);
    AppendUtf8(c, &text);
  }
  if (count < *length) text += "...";
  return text;
}

std::optional<std::string> Objects::Bytes(std::uint64_t object, std::size_t limit) {
  if (!IsA(object, "bytes")) return std::nullopt;
  const auto length = Pointer(object, kBytesLength);
  if (!length || *length > limit) return std::nullopt;
  std::string bytes(*length, '\0');
  if (!memory_->Read(object + static_cast<std::uint64_t>(layout_[kBytesData]), bytes.data(), bytes.size()))
    return std::nullopt;
  return bytes;
}

std::optional<std::int64_t> Objects::Number(std::uint64_t object) {
  constexpr std::int64_t kMostDigits = 2, kTagBits = 3, kSign = 3, kNegative = 2;
  constexpr unsigned kDigitBits = 30;
  if (!IsA(object, "int")) return std::nullopt;
  const auto size = memory_->Value<std::int64_t>(object + static_cast<std::uint64_t>(layout_[kIntSize]));
  if (!size || *size == INT64_MIN) return std::nullopt;
  const bool tagged = layout_.minor >= 12;
  const bool negative = tagged ? (*size & kSign) == kNegative : *size < 0;
  const std::int64_t digits = tagged ? *size >> kTagBits : (*size < 0 ? -*size : *size);
  if (digits < 0 || digits > kMostDigits) return std::nullopt;
  std::int64_t value = 0;
  for (std::int64_t i = digits - 1; i >= 0; --i) {
    const auto digit = memory_->Value<std::uint32_t>(object + static_cast<std::uint64_t>(layout_[kIntDigits]) +
                                                     static_cast<std::uint64_t>(i) * sizeof(std::uint32_t));
    if (!digit || *digit >> kDigitBits != 0) return std::nullopt;
    value = value << kDigitBits | *digit;
  }
  return negative ? -value : value;
}

std::optional<std::vector<std::uint64_t>> Objects::Elements(std::uint64_t tuple, std::size_t limit) {
  if (!IsA(tuple, "tuple")) return std::nullopt;
  const auto length = Pointer(tuple, kTupleLength);
  if (!length || *length > limit) return std::nullopt;
  std::vector<std::uint64_t> elements(*length);
  if (!memory_->Read(tuple + static_cast<std::uint64_t>(layout_[kTupleItems]), elements.data(), *length * kWord))
    return std::nullopt;
  return elements;
}

// The first of them, how many there are, and how many words each has: PyDictKeysObject, whose table of indices comes
// before its entries.
std::optional<std::uint64_t> Objects::EntriesOf(std::uint64_t keys, std::uint64_t* count, std::size_t* words) {
  constexpr std::uint64_t kOldHeader = 40, kHeader = 32, kGeneral = 0, kUnicode = 1;
  std::array<std::uint64_t, kOldHeader / kWord> head{};
  const std::uint64_t header = layout_.minor <= 10 ? kOldHeader : kHeader;
  if (keys % kObjectAlign != 0 || !memory_->Read(keys, head.data(), header)) return std::nullopt;
  constexpr std::size_t kBitsOfByte = 8, kMostBits = 32;
  std::uint64_t indices = 0;
  if (layout_.minor <= 10) {
    const std::uint64_t size = head[1];
    if (size > std::uint64_t{1} << kMostBits) return std::nullopt;
    indices = size * (size <= UINT8_MAX ? 1 : size <= UINT16_MAX ? 2 : 4);
    *words = 3;
    *count = head[4];
  } else {
    const std::uint64_t bits = head[1] >> kBitsOfByte & 0xff, kind = head[1] >> 2 * kBitsOfByte & 0xff;
    if (bits > kMostBits || kind > kUnicode) return std::nullopt;
    indices = std::uint64_t{1} << bits;
    *words = kind == kGeneral ? 3 : 2;  // the hash of a str lies in it
    *count = head[3];
  }
  return keys + header + indices;
}

std::optional<std::vector<Item>> Objects::Items(std::uint64_t dict, std::size_t limit) {
  if (!IsA(dict, "dict")) return std::nullopt;
  const std::uint64_t fields = dict + static_cast<std::uint64_t>(layout_[kObjectBytes]);
  const auto keys = memory_->Value<std::uint64_t>(fields + 2 * kWord);
  const auto values = memory_->Value<std::uint64_t>(fields + 3 * kWord);
  if (!keys || values != std::uint64_t{0}) return std::nullopt;
  std::uint64_t count = 0;
  std::size_t words = 0;
  const auto begin = EntriesOf(*keys, &count, &words);
  if (!begin || count > limit) return std::nullopt;
  std::vector<std::uint64_t> entries(count * words);
  if (!memory_->Read(*begin, entries.data(), entries.size() * kWord)) return std::nullopt;
  std::vector<Item> items;
  for (std::size_t i = words; i <= entries.size(); i += words)
    if (entries[i - 1] != 0) items.push_back({entries[i - 2], entries[i - 1]});  // 0: taken out
  return items;
}

std::optional<Objects::Parts> Objects::PartsOf(std::uint64_t code) {
  if (!IsA(code, "code")) return std::nullopt;
  const auto file = Pointer(code, kCodeFile);
  const auto name = Pointer(code, layout_.Has(kCodeQualifiedName) ? kCodeQualifiedName : kCodeName);
  const auto lines = Pointer(code, kCodeLines);
  const auto first_line = Int(code, kCodeFirstLine);
  if (!file || !name || !lines || !first_line) return std::nullopt;
  return Parts{*file, *name, *lines, *first_line};
}

std::optional<std::string> Objects::FileOf(std::uint64_t code) {
  const auto parts = PartsOf(code);
  return parts ? Str(parts->file, kMostFile) : std::nullopt;
}

const Code* Objects::CodeAt(std::uint64_t object) {
  const auto parts = PartsOf(object);
  if (!parts) return nullptr;
  auto [entry, fresh] = codes_.try_emplace(object);
  if (!fresh && entry->second.parts == *parts) return &entry->second.code;
  Code code;
  code.function = Str(parts->name, kMostFunction).value_or("");
  code.file = Str(parts->file, kMostFile).value_or("");
  code.lines = Bytes(parts->lines, kMostLines).value_or("");
  code.first_line = parts->first_line;
  if (layout_.Has(kCodeInstructions))
    code.instructions = object + static_cast<std::uint64_t>(layout_[kCodeInstructions]);
  entry->second = {*parts, std::move(code)};
  return &entry->second.code;
}

int Objects::LineOf(std::uint64_t object, const Code& code, std::int64_t instruction, std::int32_t copy) {
  constexpr std::int64_t kUnit = 2;            // bytes of an instruction
  constexpr std::int64_t kMostCode = 1 << 30;  // bytes
  std::int64_t offset = 0;
  if (layout_.minor <= 10) {
    offset = layout_.minor == 10 ? instruction * kUnit : instruction;
  } else {
    std::uint64_t begin = code.instructions;
    if (layout_.Has(kCodeCopies) && copy != 0) {
      const auto copies = Pointer(object, kCodeCopies);
      const auto count = copies ? memory_->Value<std::int64_t>(*copies) : std::nullopt;
      if (!count || copy < 0 || copy >= *count) return 0;
      const auto at = memory_->Value<std::uint64_t>(*copies + kWord * (1 + std::uint64_t(copy)));
      if (!at) return 0;
      begin = *at;
    }
    offset = static_cast<std::int64_t>(static_cast<std::uint64_t>(instruction) - begin);
  }
  // One instruction before the first is where a frame stands that has not begun.
  if (offset < -kUnit || offset > kMostCode) return 0;
  return LineAt(layout_.minor, code.lines, code.first_line, offset);
}

}  // namespace ncclwatch::cpython
