#include "analyzer/import/value.h"

namespace ncclwatch::analyzer::import {

Tree::Tree() { Clear(); }

void Tree::Clear() {
  nodes_.clear();
  items_.clear();
  chunks_.clear();
  copies_.clear();
  Add({});
  for (const bool value : {false, true}) {
    Node node;
    node.kind = ValueKind::kBool;
    node.integer = value ? 1 : 0;
    Add(node);
  }
  for (std::int64_t value = 0; value < kSmall; ++value) {
    Node node;
    node.kind = ValueKind::kInteger;
    node.integer = value;
    Add(node);
  }
}

ValueId Tree::TooLarge() {
  Node node;
  node.kind = ValueKind::kTooLarge;
  return Add(node);
}

ValueId Tree::Real(double value) {
  Node node;
  node.kind = ValueKind::kReal;
  node.real = value;
  return Add(node);
}

ValueId Tree::String(std::string_view text) {
  Node node;
  node.kind = ValueKind::kString;
  node.bytes = static_cast<std::uint32_t>(text.size());
  node.text = text.data();
  return Add(node);
}

ValueId Tree::CopyOfString(std::string_view text) { return String(copies_.emplace_back(text)); }

ValueId Tree::Container(ValueKind kind) {
  Node node;
  node.kind = kind;
  node.chunks = {kNoChunk, kNoChunk};
  return Add(node);
}

std::size_t Tree::Count(ValueId container) const {
  std::size_t count = 0;
  for (std::uint32_t at = nodes_[container].chunks.first; at != kNoChunk; at = chunks_[at].next)
    count += chunks_[at].count;
  return count;
}

void Tree::Append(ValueId container, const ValueId* items, std::size_t count) {
  if (count == 0) return;
  const auto chunk = static_cast<std::uint32_t>(chunks_.size());
  chunks_.push_back({static_cast<std::uint32_t>(items_.size()), static_cast<std::uint32_t>(count), kNoChunk});
  constexpr std::size_t kFew = 8;  // most containers: a loop is quicker than a call of memmove
  if (count <= kFew)
    for (std::size_t i = 0; i < count; ++i) items_.push_back(items[i]);
  else
    items_.insert(items_.end(), items, items + count);
  Node& node = nodes_[container];
  if (node.chunks.first == kNoChunk)
    node.chunks.first = chunk;
  else
    chunks_[node.chunks.last].next = chunk;
  node.chunks.last = chunk;
}

}  // namespace ncclwatch::analyzer::import
