// What stands for which word. That most words stand for themselves is known from their first and last letter and
// length.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

namespace ncclwatch::analyzer {

class Words {
 public:
  // What is there already stays.
  void Put(std::string_view word, std::string_view substitute) {
    if (word.empty()) return;
    words_.emplace(word, substitute);
    begins_[Of(word.front())] = true;
    shapes_[Shape(word)] = true;
  }
  bool MayBegin(char first) const { return begins_[Of(first)]; }
  bool MayHold(std::string_view word) const { return !word.empty() && shapes_[Shape(word)]; }
  // Null: it is not known.
  const std::string* Find(std::string_view word) const {
    if (!MayHold(word)) return nullptr;
    const auto found = words_.find(word);
    return found == words_.end() ? nullptr : &found->second;
  }

 private:
  static constexpr std::size_t kShapes = 8192;
  static std::size_t Of(char c) { return static_cast<unsigned char>(c); }
  static std::size_t Shape(std::string_view word) {
    return (Of(word.front()) * 37 + Of(word.back()) * 1031 + word.size() * 131) % kShapes;
  }

  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view word) const { return std::hash<std::string_view>()(word); }
  };
  std::unordered_map<std::string, std::string, Hash, std::equal_to<>> words_;
  std::array<bool, 256> begins_{};
  std::array<bool, kShapes> shapes_{};
};

}  // namespace ncclwatch::analyzer
