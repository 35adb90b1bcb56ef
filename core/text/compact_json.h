// JSON from elsewhere on its way into one line of a file: checked byte by byte, without the blanks and line ends that
// may stand between its parts.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "core/text/printable.h"

namespace ncclwatch {

class JsonCompactor {
 public:
  explicit JsonCompactor(std::string_view text) : rest_(text) {}
  std::optional<std::string> Run() {
    Blanks();
    if (!Value(0)) return std::nullopt;
    Blanks();
    return rest_.empty() ? std::optional(PrintableJson(out_)) : std::nullopt;
  }

 private:
  static constexpr int kDeepest = 64;

  bool At(std::string_view any) const { return !rest_.empty() && any.find(rest_.front()) != std::string_view::npos; }
  std::size_t Span(std::string_view of) const { return std::min(rest_.find_first_not_of(of), rest_.size()); }
  void Blanks() { rest_.remove_prefix(Span(" \t\r\n")); }
  bool Copy(std::size_t bytes) {
    out_ += rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return bytes > 0;
  }
  bool Take(std::string_view word) { return rest_.starts_with(word) && Copy(word.size()); }
  bool Digits() { return Copy(Span("0123456789")); }

  bool Number() {
    Take("-");
    if (!Take("0") && !Digits()) return false;
    if (Take(".") && !Digits()) return false;
    if (!At("eE")) return true;
    Copy(1);
    if (At("+-")) Copy(1);
    return Digits();
  }

  // Behind the backslash.
  bool Escaped() {
    constexpr std::size_t kDigits = 4;
    if (!At("u")) return At("\"\\/bfnrt") && Copy(1);
    Copy(1);
    return Span("0123456789abcdefABCDEF") >= kDigits && Copy(kDigits);
  }

  bool String() {
    if (!Take("\"")) return false;
    while (!rest_.empty()) {
      if (Take("\"")) return true;
      if (Take("\\")) {
        if (!Escaped()) return false;
        continue;
      }
      const std::size_t bytes = printable::SequenceLength(rest_);
      if (bytes == 0 || static_cast<unsigned char>(rest_.front()) < 0x20) return false;
      Copy(bytes);
    }
    return false;
  }

  // `item` reads one, and the blanks behind it.
  template <class Item>
  bool List(std::string_view end, Item item) {
    Copy(1);
    Blanks();
    if (Take(end)) return true;
    while (item()) {
      if (Take(end)) return true;
      if (!Take(",")) return false;
      Blanks();
    }
    return false;
  }

  bool Value(int depth) {
    if (depth > kDeepest) return false;
    const auto item = [&] {
      if (!Value(depth + 1)) return false;
      Blanks();
      return true;
    };
    if (At("[")) return List("]", item);
    if (!At("{")) return At("\"") ? String() : Take("true") || Take("false") || Take("null") || Number();
    return List("}", [&] {
      if (!String()) return false;
      Blanks();
      if (!Take(":")) return false;
      Blanks();
      return item();
    });
  }

  std::string_view rest_;
  std::string out_;
};

// Nothing of what is no JSON.
inline std::optional<std::string> CompactJson(std::string_view text) { return JsonCompactor(text).Run(); }

}  // namespace ncclwatch
