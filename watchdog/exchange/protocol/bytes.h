// Numbers and short texts in messages: little-endian, no alignment, every length checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace ncclwatch::exchange {

class Writer {
 public:
  explicit Writer(std::string* out) : out_(out) {}
  template <typename T>
  Writer& Put(T value) {
    static_assert(std::is_integral_v<T>);
    auto bits = static_cast<std::make_unsigned_t<T>>(value);
    for (std::size_t i = 0; i < sizeof(T); ++i) out_->push_back(static_cast<char>(std::uint64_t{bits} >> (8 * i)));
    return *this;
  }
  // At most 255 bytes; what is longer is cut.
  Writer& PutText(std::string_view text) {
    text = text.substr(0, 255);
    Put(static_cast<std::uint8_t>(text.size()));
    out_->append(text);
    return *this;
  }
  Writer& PutRaw(std::string_view bytes) {
    out_->append(bytes);
    return *this;
  }

 private:
  std::string* out_;
};

// Past the end it gives zeros and nothing, and ok() says so.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}
  template <typename T>
  T Get() {
    const std::string_view raw = GetRaw(sizeof(T));
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < raw.size(); ++i) bits |= std::uint64_t{static_cast<std::uint8_t>(raw[i])} << (8 * i);
    return static_cast<T>(bits);
  }
  std::string_view GetText(std::size_t most) {
    const std::size_t size = Get<std::uint8_t>();
    if (size > most) ok_ = false;
    return ok_ ? GetRaw(size) : std::string_view();
  }
  std::string_view GetRaw(std::size_t size) {
    if (!ok_ || size > rest_.size()) {
      ok_ = false;
      return {};
    }
    const std::string_view raw = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return raw;
  }
  std::string_view rest() const { return rest_; }
  bool ok() const { return ok_; }
  bool Done() const { return ok_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace ncclwatch::exchange
