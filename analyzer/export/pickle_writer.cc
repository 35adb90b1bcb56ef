#include "analyzer/export/pickle_writer.h"

#include <limits>

#include "analyzer/import/opcodes.h"

namespace ncclwatch::analyzer::exporting {
namespace {

using import::Opcode;

constexpr char Code(Opcode opcode) { return static_cast<char>(opcode); }

}  // namespace

PickleWriter::PickleWriter() {
  constexpr char kProtocol = 2;
  Byte(Code(Opcode::kProto));
  Byte(kProtocol);
}

// Little endian, as this machine is (import/pickle.cc).
template <typename T>
void PickleWriter::Fixed(T value) {
  bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void PickleWriter::None() { Byte(Code(Opcode::kNone)); }

void PickleWriter::Bool(bool value) { Byte(Code(value ? Opcode::kNewTrue : Opcode::kNewFalse)); }

void PickleWriter::Integer(std::int64_t value) {
  if (value >= 0 && value <= std::numeric_limits<std::uint8_t>::max()) {
    Byte(Code(Opcode::kBinInt1));
    Fixed(static_cast<std::uint8_t>(value));
  } else if (value >= 0 && value <= std::numeric_limits<std::uint16_t>::max()) {
    Byte(Code(Opcode::kBinInt2));
    Fixed(static_cast<std::uint16_t>(value));
  } else if (value >= std::numeric_limits<std::int32_t>::min() && value <= std::numeric_limits<std::int32_t>::max()) {
    Byte(Code(Opcode::kBinInt));
    Fixed(static_cast<std::int32_t>(value));
  } else {
    Byte(Code(Opcode::kLong1));
    Fixed(static_cast<std::uint8_t>(sizeof value));
    Fixed(value);
  }
}

void PickleWriter::String(std::string_view text) {
  const auto [found, fresh] = numbers_.try_emplace(std::string(text), static_cast<std::uint32_t>(numbers_.size()));
  const std::uint32_t number = found->second;
  const bool small = number <= std::numeric_limits<std::uint8_t>::max();
  if (fresh) {
    Byte(Code(Opcode::kBinUnicode));
    Fixed(static_cast<std::uint32_t>(text.size()));
    bytes_ += text;
    Byte(Code(small ? Opcode::kBinPut : Opcode::kLongBinPut));
  } else {
    Byte(Code(small ? Opcode::kBinGet : Opcode::kLongBinGet));
  }
  if (small)
    Fixed(static_cast<std::uint8_t>(number));
  else
    Fixed(number);
}

void PickleWriter::BeginList() {
  Byte(Code(Opcode::kEmptyList));
  Byte(Code(Opcode::kMark));
}
void PickleWriter::EndList() { Byte(Code(Opcode::kAppends)); }

void PickleWriter::BeginDictionary() {
  Byte(Code(Opcode::kEmptyDict));
  Byte(Code(Opcode::kMark));
}
void PickleWriter::EndDictionary() { Byte(Code(Opcode::kSetItems)); }

void PickleWriter::Pair(std::string_view first, std::string_view second) {
  String(first);
  String(second);
  Byte(Code(Opcode::kTuple2));
}

void PickleWriter::Item(std::string_view key, std::string_view value) {
  Key(key);
  String(value);
}
void PickleWriter::Item(std::string_view key, std::int64_t value) {
  Key(key);
  Integer(value);
}
void PickleWriter::Item(std::string_view key, bool value) {
  Key(key);
  Bool(value);
}

std::string PickleWriter::Take() {
  Byte(Code(Opcode::kStop));
  return std::move(bytes_);
}

}  // namespace ncclwatch::analyzer::exporting
