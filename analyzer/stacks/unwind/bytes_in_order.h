// Numbers of a byte sequence, one after the other, as DWARF encodes them. Past the end everything is 0 and ok() false.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace ncclwatch::stacks {

class BytesInOrder {
 public:
  explicit BytesInOrder(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  bool ok() const { return ok_; }
  bool AtEnd() const { return at_ >= bytes_.size(); }
  std::size_t at() const { return at_; }
  void Skip(std::int64_t bytes) {  // backwards too
    const std::int64_t to = static_cast<std::int64_t>(at_) + bytes;
    if (to < 0 || to > static_cast<std::int64_t>(bytes_.size()))
      Fail();
    else
      at_ = static_cast<std::size_t>(to);
  }
  template <typename T>
  T Take() {
    T value{};
    if (!ok_ || bytes_.size() - at_ < sizeof(T)) {
      Fail();
      return value;
    }
    std::memcpy(&value, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }
  std::uint64_t Unsigned() {  // LEB128
    std::uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const auto byte = Take<std::uint8_t>();
      if (shift < 64) value |= std::uint64_t{byte & 0x7fu} << shift;
      if ((byte & 0x80u) == 0) return value;
    }
  }
  std::int64_t Signed() {  // LEB128
    std::uint64_t value = 0;
    for (unsigned shift = 0;;) {
      const auto byte = Take<std::uint8_t>();
      if (shift < 64) value |= std::uint64_t{byte & 0x7fu} << shift;
      shift += 7;
      if ((byte & 0x80u) != 0) continue;
      if ((byte & 0x40u) != 0 && shift < 64) value |= ~std::uint64_t{0} << shift;
      return static_cast<std::int64_t>(value);
    }
  }
  std::vector<std::uint8_t> Block(std::uint64_t bytes) {
    if (!ok_ || bytes > bytes_.size() - at_) {
      Fail();
      return {};
    }
    const auto* const begin = bytes_.data() + at_;
    at_ += bytes;
    return {begin, begin + bytes};
  }

 private:
  void Fail() {
    ok_ = false;
    at_ = bytes_.size();
  }

  std::span<const std::uint8_t> bytes_;
  std::size_t at_ = 0;
  bool ok_ = true;
};

}  // namespace ncclwatch::stacks
