// Reads the numbers of unwinding tables out of this process's memory, a window at a time. Async-signal-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "shim/lifecycle/words/self_memory.h"

namespace ncclwatch::shim {

class Cursor {
 public:
  Cursor(std::uint64_t begin, std::uint64_t end) : at_(begin), end_(end) {}

  std::uint64_t at() const { return at_; }
  void MoveTo(std::uint64_t address) { at_ = address; }
  bool done() const { return at_ >= end_ || failed_; }
  bool failed() const { return failed_; }  // what was read since is 0

  template <class T>
  T Fixed() {
    unsigned char bytes[sizeof(T)];
    for (unsigned char& byte : bytes) byte = Byte();
    T value;
    std::memcpy(&value, bytes, sizeof value);
    return value;
  }
  std::uint64_t Unsigned() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const unsigned char byte = Byte();
      value |= std::uint64_t{byte & 0x7fu} << shift;
      if (!(byte & 0x80)) return value;
    }
    failed_ = true;
    return 0;
  }
  std::int64_t Signed() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64;) {
      const unsigned char byte = Byte();
      value |= std::uint64_t{byte & 0x7fu} << shift;
      shift += 7;
      if (byte & 0x80) continue;
      if (shift < 64 && (byte & 0x40)) value |= ~std::uint64_t{0} << shift;
      return static_cast<std::int64_t>(value);
    }
    failed_ = true;
    return 0;
  }
  unsigned char Byte() {
    if (at_ >= end_ || (!InWindow() && !Fill())) {
      failed_ = true;
      return 0;
    }
    return window_[at_++ - window_begin_];
  }

 private:
  bool InWindow() const { return at_ >= window_begin_ && at_ < window_begin_ + window_bytes_; }
  bool Fill() {
    window_begin_ = at_;
    window_bytes_ = std::min<std::uint64_t>(sizeof window_, end_ - at_);
    if (!ReadSelf(at_, window_, window_bytes_)) window_bytes_ = 0;
    return window_bytes_ != 0;
  }

  std::uint64_t at_;
  std::uint64_t end_;
  std::uint64_t window_begin_ = 0;
  std::uint64_t window_bytes_ = 0;
  bool failed_ = false;
  unsigned char window_[64] = {};
};

}  // namespace ncclwatch::shim
