// Plain data as a pickle or a JSON text holds it: numbers, strings, lists, dictionaries. Values are numbers into one
// tree, so that nothing is copied where the input refers to the same thing twice, and memory stays in proportion to
// the input: at most kBytesPerInputByte for each of its bytes, whatever they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace ncclwatch::analyzer::import {

// A one-byte opcode makes at most one value and one entry of the stack, or one chunk and one item.
inline constexpr std::size_t kBytesPerInputByte = 64;

enum class ValueKind : std::uint8_t { kNone, kBool, kInteger, kReal, kString, kList, kDictionary, kTooLarge };

using ValueId = std::uint32_t;

class Tree {
 public:
  Tree();
  // Keeps the memory for the next input.
  void Clear();

  static constexpr ValueId kNone = 0;
  static constexpr ValueId kFalse = 1;
  static constexpr ValueId kTrue = 2;

  ValueId Integer(std::int64_t value) {
    if (value >= 0 && value < kSmall) return static_cast<ValueId>(kTrue + 1 + value);
    Node node;
    node.kind = ValueKind::kInteger;
    node.integer = value;
    return Add(node);
  }
  ValueId TooLarge();  // an integer of more than 64 bits: nothing that is read here is one
  ValueId Real(double value);
  ValueId String(std::string_view text);  // `text` outlives the tree's use
  ValueId CopyOfString(std::string_view text);
  ValueId List() { return Container(ValueKind::kList); }  // tuples too
  ValueId Dictionary() { return Container(ValueKind::kDictionary); }
  // `count` values; for a dictionary keys and values in turn. It may be called many times for one container.
  void Append(ValueId container, const ValueId* items, std::size_t count);

  ValueKind kind(ValueId value) const { return nodes_[value].kind; }
  bool Is(ValueId value, ValueKind kind) const { return nodes_[value].kind == kind; }
  // Valid for values of that kind.
  std::int64_t integer(ValueId value) const { return nodes_[value].integer; }
  double real(ValueId value) const { return nodes_[value].real; }
  std::string_view text(ValueId value) const { return {nodes_[value].text, nodes_[value].bytes}; }

  std::size_t size() const { return nodes_.size(); }
  std::size_t Count(ValueId container) const;  // of its items
  // Of a list, its items; of a dictionary keys and values in turn. Not more than `most` of them: an input may put one
  // long list into many others.
  template <typename Visit>
  void Each(ValueId container, std::size_t most, Visit visit) const {
    for (std::uint32_t at = nodes_[container].chunks.first; at != kNoChunk; at = chunks_[at].next) {
      const Chunk& chunk = chunks_[at];
      for (std::uint32_t i = 0; i < chunk.count; ++i) {
        if (most == 0) return;
        --most;
        visit(items_[chunk.first + i]);
      }
    }
  }

 private:
  static constexpr std::uint32_t kNoChunk = UINT32_MAX;
  static constexpr std::int64_t kSmall = 256;  // integers that are there from the beginning

  struct Node {
    ValueKind kind = ValueKind::kNone;
    std::uint32_t bytes = 0;  // of a string
    union {
      std::int64_t integer = 0;
      double real;
      const char* text;
      struct {
        std::uint32_t first, last;
      } chunks;
    };
  };
  static_assert(sizeof(Node) == 16);
  // What one Append() brought; a list that grows in turn with others never moves.
  struct Chunk {
    std::uint32_t first, count, next;
  };

  ValueId Container(ValueKind kind);
  ValueId Add(const Node& node) {
    nodes_.push_back(node);
    return static_cast<ValueId>(nodes_.size() - 1);
  }

  std::vector<Node> nodes_;
  std::vector<ValueId> items_;
  std::vector<Chunk> chunks_;
  std::deque<std::string> copies_;
};

}  // namespace ncclwatch::analyzer::import
