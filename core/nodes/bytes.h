// Numbers and texts in what node leaders tell one another: small numbers are short (7 bits a byte, lowest first), every
// length is checked. A reader past the end, or at what cannot be, gives zeros from then on, and ok() says so.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

namespace ncclwatch::nodes {

class Writer {
 public:
  Writer& Byte(std::uint8_t value) {
    out_.push_back(static_cast<char>(value));
    return *this;
  }
  Writer& Number(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) Byte(static_cast<std::uint8_t>(value | 0x80));
    return Byte(static_cast<std::uint8_t>(value));
  }
  // Small negative numbers are short too.
  Writer& Signed(std::int64_t value) {
    return Number((static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63));
  }
  // What looks random anyway.
  Writer& Whole(std::uint64_t value) {
    for (int shift = 0; shift < 64; shift += 8) Byte(static_cast<std::uint8_t>(value >> shift));
    return *this;
  }
  Writer& Text(std::string_view text, std::size_t most) {
    text = text.substr(0, most);
    Number(text.size());
    out_.append(text);
    return *this;
  }
  Writer& Raw(std::string_view bytes) {
    out_.append(bytes);
    return *this;
  }

  std::size_t size() const { return out_.size(); }
  const std::string& bytes() const { return out_; }
  std::string Take() { return std::move(out_); }

 private:
  std::string out_;
};

// A few bytes may stand for many: what is made of them is counted, and more than there is room for is damage.
inline constexpr std::size_t kMostMade = 256u << 20;

class Reader {
 public:
  explicit Reader(std::string_view bytes, std::size_t most_made = kMostMade)
      : at_(bytes.data()), end_(bytes.data() + bytes.size()), most_made_(most_made) {}

  std::uint8_t Byte() { return at_ == end_ ? static_cast<std::uint8_t>(Fail()) : static_cast<std::uint8_t>(*at_++); }
  std::uint64_t Number() {
    // Most are small, and this much is worth being inlined.
    if (at_ == end_ || static_cast<std::uint8_t>(*at_) >= 0x80) return LongNumber();
    return static_cast<std::uint8_t>(*at_++);
  }
  // What is larger is damage.
  std::uint64_t NumberUpTo(std::uint64_t most) {
    const std::uint64_t value = Number();
    return value <= most ? value : Fail();
  }
  template <typename Small>
  Small NumberAs(std::uint64_t most = static_cast<Small>(-1)) {
    return static_cast<Small>(NumberUpTo(most));
  }
  std::int64_t Signed() {
    const std::uint64_t value = Number();
    return static_cast<std::int64_t>(value >> 1) ^ -static_cast<std::int64_t>(value & 1);
  }
  std::int32_t Signed32() {
    const std::int64_t value = Signed();
    if (value < INT32_MIN || value > INT32_MAX) return static_cast<std::int32_t>(Fail());
    return static_cast<std::int32_t>(value);
  }
  std::uint64_t Whole() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 8) value |= std::uint64_t{Byte()} << shift;
    return ok_ ? value : 0;
  }
  std::string_view Text(std::size_t most) {
    const std::string_view text = Raw(NumberUpTo(most));
    Made(text.size());
    return text;
  }
  std::string_view Raw(std::size_t size) {
    if (size > left()) {
      Fail();
      return {};
    }
    return {std::exchange(at_, at_ + size), size};
  }

  std::uint64_t Fail() {
    ok_ = false;
    at_ = end_;  // so that nothing else is read
    return 0;
  }
  // So many bytes of memory are used for what is read.
  void Made(std::size_t bytes) {
    made_ += bytes;
    if (made_ > most_made_) Fail();
  }
  void Limit(std::size_t most_made) { most_made_ = most_made; }
  std::size_t made() const { return made_; }
  bool full() const { return made_ > most_made_; }
  bool ok() const { return ok_; }
  bool Done() const { return ok_ && at_ == end_; }
  std::size_t left() const { return static_cast<std::size_t>(end_ - at_); }

 private:
  [[gnu::noinline]] std::uint64_t LongNumber() {
    std::uint64_t word = 0;
    if (left() < sizeof word) return NumberByByte();
    std::memcpy(&word, at_, sizeof word);
    const std::uint64_t ends = ~word & 0x8080808080808080;
    if (ends == 0) return NumberByByte();
    at_ += std::countr_zero(ends) / 8 + 1;
    word &= ends ^ (ends - 1);
    // Two and two parts of 7 bits become one of 14, and so on.
    word = (word & 0x007f007f007f007f) | (word & 0x7f007f007f007f00) >> 1;
    word = (word & 0x00003fff00003fff) | (word & 0x3fff00003fff0000) >> 2;
    return (word & 0x000000000fffffff) | (word & 0x0fffffff00000000) >> 4;
  }
  std::uint64_t NumberByByte() {
    constexpr std::size_t kMostBytes = 10;
    const std::size_t most = std::min(left(), kMostBytes);
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < most; ++i) {
      const auto byte = static_cast<std::uint8_t>(at_[i]);
      value |= std::uint64_t{byte & 0x7fu} << 7 * i;
      if (byte >= 0x80) continue;
      if (i == kMostBytes - 1 && byte > 1) break;
      at_ += i + 1;
      return value;
    }
    return Fail();
  }

  const char *at_, *end_;
  std::size_t most_made_, made_ = 0;
  bool ok_ = true;
};

// Clamped sums of instants that strangers have written.
constexpr std::int64_t Later(std::int64_t ns, std::int64_t by_ns) {
  constexpr std::int64_t kQuarter = INT64_MAX / 4;
  const auto bounded = [](std::int64_t value) {
    return value < -kQuarter ? -kQuarter : value > kQuarter ? kQuarter : value;
  };
  return bounded(ns) + bounded(by_ns);
}

}  // namespace ncclwatch::nodes
