// Bytes that grow at their end, a few at a time: a std::string is slow at that.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

namespace ncclwatch::analyzer {

class ByteBuffer {
 public:
  void Put(char byte) {
    *Room(1) = byte;
    ++size_;
  }
  void Put(std::string_view bytes) {
    if (!bytes.empty()) std::memcpy(Room(bytes.size()), bytes.data(), bytes.size());
    size_ += bytes.size();
  }
  // As it lies in memory.
  template <typename T>
  void PutValue(const T& value) {
    std::memcpy(Room(sizeof value), &value, sizeof value);
    size_ += sizeof value;
  }
  // Where so many bytes may be written; what of them counts says EndAt().
  char* Room(std::size_t bytes) {
    if (capacity_ - size_ < bytes) Grow(bytes);
    return At(size_);
  }
  void EndAt(const char* end) { size_ = static_cast<std::size_t>(end - bytes_.get()); }

  void Erase(std::size_t from, std::size_t to) {
    std::memmove(At(from), At(to), size_ - to);
    size_ -= to - from;
  }
  // With zeros, if it grows.
  void Resize(std::size_t size) {
    if (size > size_) std::memset(Room(size - size_), 0, size - size_);
    size_ = size;
  }
  char* At(std::size_t at) { return bytes_.get() + at; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::string_view view() const { return {bytes_.get(), size_}; }
  void Clear() { size_ = 0; }  // the memory stays

 private:
  void Grow(std::size_t bytes) {
    constexpr std::size_t kLeast = 256;
    capacity_ = std::max({kLeast, 2 * capacity_, size_ + bytes});
    auto larger = std::make_unique_for_overwrite<char[]>(capacity_);
    if (size_ > 0) std::memcpy(larger.get(), bytes_.get(), size_);
    bytes_ = std::move(larger);
  }

  std::unique_ptr<char[]> bytes_;
  std::size_t size_ = 0, capacity_ = 0;
};

}  // namespace ncclwatch::analyzer
