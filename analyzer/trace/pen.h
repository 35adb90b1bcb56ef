// Writes text where room has been made for it, number by number.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace ncclwatch::analyzer {

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

}  // namespace ncclwatch::analyzer
