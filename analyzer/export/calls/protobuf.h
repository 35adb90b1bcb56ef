// Writes messages of protocol buffers (https://protobuf.dev/programming-guides/encoding) field by field. A library that
// knows the schemas would first build each message in memory; here a field costs a few nanoseconds.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace ncclwatch::analyzer::exporting {

class ProtobufWriter {
 public:
  void Number(std::uint32_t field, std::uint64_t value) {
    Varint(field << 3 | kVarint);
    Varint(value);
  }
  void Fixed64(std::uint32_t field, std::uint64_t value) {
    Varint(field << 3 | kFixed64);
    Bytes(&value, sizeof value);  // little-endian, as this machine is
  }
  void Double(std::uint32_t field, double value) {
    Varint(field << 3 | kFixed64);
    Bytes(&value, sizeof value);
  }
  void Text(std::uint32_t field, std::string_view text) {
    Varint(field << 3 | kLength);
    Varint(text.size());
    Bytes(text.data(), text.size());
  }

  // A message inside this one: what is written until End(). Most are shorter than 128 bytes, so that their length takes
  // one byte; longer ones are moved to make room.
  std::size_t Begin(std::uint32_t field) {
    Varint(field << 3 | kLength);
    *Room(1) = 0;
    return ++size_;
  }
  void End(std::size_t begin) {
    const std::size_t length = size_ - begin;
    if (length < 0x80) {
      buffer_[begin - 1] = static_cast<char>(length);
      return;
    }
    char digits[kMostDigits];
    const std::size_t count = Encode(length, digits);
    Room(count);
    std::memmove(&buffer_[begin - 1 + count], &buffer_[begin], length);
    std::memcpy(&buffer_[begin - 1], digits, count);
    size_ += count - 1;
  }

  void Varint(std::uint64_t value) { size_ += Encode(value, Room(kMostDigits)); }
  std::string_view bytes() const { return {buffer_.data(), size_}; }
  void Clear() { size_ = 0; }

 private:
  enum : std::uint32_t { kVarint = 0, kFixed64 = 1, kLength = 2 };
  static constexpr std::size_t kMostDigits = 10;

  static std::size_t Encode(std::uint64_t value, char* digits) {
    std::size_t count = 0;
    for (; value >= 0x80; value >>= 7) digits[count++] = static_cast<char>(value | 0x80);
    digits[count++] = static_cast<char>(value);
    return count;
  }
  char* Room(std::size_t bytes) {
    if (buffer_.size() - size_ < bytes) buffer_.resize(2 * (buffer_.size() + bytes));
    return &buffer_[size_];
  }
  void Bytes(const void* bytes, std::size_t count) {
    if (count == 0) return;
    std::memcpy(Room(count), bytes, count);
    size_ += count;
  }

  std::vector<char> buffer_;  // of which the first size_ are written
  std::size_t size_ = 0;
};

}  // namespace ncclwatch::analyzer::exporting
