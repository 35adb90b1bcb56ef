// Text that grows at its end and keeps its memory: lines are written into it, number by number.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

namespace ncclwatch::analyzer {

// Where it grows, within the room that has been made.
class Pen {
 public:
  static constexpr std::size_t kMostDigits = 32;  // of a number, also of a double

  explicit Pen(char* at) : at_(at) {}
  void Put(std::string_view text) {
    const std::size_t size = text.size();
    const char* const from = text.data();
    // Most texts are as short as that, and a call costs more than the copy.
    if (size >= sizeof(std::uint64_t) && size <= 2 * sizeof(std::uint64_t)) {
      std::memcpy(at_, from, sizeof(std::uint64_t));
      std::memcpy(at_ + size - sizeof(std::uint64_t), from + size - sizeof(std::uint64_t), sizeof(std::uint64_t));
    } else if (size >= sizeof(std::uint32_t) && size < sizeof(std::uint64_t)) {
      std::memcpy(at_, from, sizeof(std::uint32_t));
      std::memcpy(at_ + size - sizeof(std::uint32_t), from + size - sizeof(std::uint32_t), sizeof(std::uint32_t));
    } else if (size != 0) {
      std::memcpy(at_, from, size);
    }
    at_ += size;
  }
  void Put(char letter) { *at_++ = letter; }
  template <typename Integer>
  void Number(Integer value, int base = 10) {
    at_ = std::to_chars(at_, at_ + kMostDigits, value, base).ptr;
  }
  // `write` takes where to write at most kMostDigits, and gives the end of it.
  template <typename Write>
  void Digits(Write write) {
    at_ = write(at_);
  }
  char* at() const { return at_; }

 private:
  char* at_;
};

class LineText {
 public:
  // For so many bytes, of which the pen then writes some.
  Pen Room(std::size_t bytes) {
    if (capacity_ - size_ < bytes) Grow(bytes);
    return Pen(bytes_.get() + size_);
  }
  void Take(const Pen& pen) { size_ = static_cast<std::size_t>(pen.at() - bytes_.get()); }
  std::string_view view() const { return {bytes_.get(), size_}; }
  void Clear() { size_ = 0; }

 private:
  void Grow(std::size_t bytes) {
    constexpr std::size_t kLeast = 4096;
    capacity_ = std::max({kLeast, 2 * capacity_, size_ + bytes});
    auto larger = std::make_unique_for_overwrite<char[]>(capacity_);
    if (size_ > 0) std::memcpy(larger.get(), bytes_.get(), size_);
    bytes_ = std::move(larger);
  }

  std::unique_ptr<char[]> bytes_;
  std::size_t size_ = 0, capacity_ = 0;
};

}  // namespace ncclwatch::analyzer
