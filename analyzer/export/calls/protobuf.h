// Writes messages of protocol buffers (https://protobuf.dev/programming-guides/encoding) field by field. A library that
// knows the schemas would first build each message in memory; here a field costs a few nanoseconds.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace ncclwatch::analyzer::exporting {

class ProtobufWriter {
 public:
  void Number(std::uint32_t field, std::uint64_t value) {
    Varint(field << 3 | kVarint);
    Varint(value);
  }
  void Signed(std::uint32_t field, std::int64_t value) { Number(field, static_cast<std::uint64_t>(value)); }
  void Fixed64(std::uint32_t field, std::uint64_t value) {
    Varint(field << 3 | kFixed64);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);  // little-endian, as this machine is
  }
  void Double(std::uint32_t field, double value) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    Fixed64(field, bits);
  }
  void Text(std::uint32_t field, std::string_view text) {
    Varint(field << 3 | kLength);
    Varint(text.size());
    bytes_.append(text);
  }

  // A message inside this one: what is written until End(). Most are shorter than 128 bytes, so that their length takes
  // one byte; longer ones are moved to make room.
  std::size_t Begin(std::uint32_t field) {
    Varint(field << 3 | kLength);
    bytes_.push_back('\0');
    return bytes_.size();
  }
  void End(std::size_t begin) {
    const std::size_t length = bytes_.size() - begin;
    if (length < 0x80) {
      bytes_[begin - 1] = static_cast<char>(length);
      return;
    }
    char digits[kMostDigits];
    bytes_.replace(begin - 1, 1, digits, Encode(length, digits));
  }

  void Varint(std::uint64_t value) {
    char digits[kMostDigits];
    bytes_.append(digits, Encode(value, digits));
  }
  const std::string& bytes() const { return bytes_; }
  void Clear() { bytes_.clear(); }

 private:
  enum : std::uint32_t { kVarint = 0, kFixed64 = 1, kLength = 2 };
  static constexpr std::size_t kMostDigits = 10;

  static std::size_t Encode(std::uint64_t value, char* digits) {
    std::size_t count = 0;
    for (; value >= 0x80; value >>= 7) digits[count++] = static_cast<char>(value | 0x80);
    digits[count++] = static_cast<char>(value);
    return count;
  }

  std::string bytes_;
};

}  // namespace ncclwatch::analyzer::exporting
