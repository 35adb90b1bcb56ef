// A tree of values as one line.
#pragma once

#include <string>

#include "analyzer/import/value.h"

namespace ncclwatch::analyzer::import {

inline std::string TextOf(const Tree& tree, ValueId value, int depth = 0) {
  if (depth > 20) return "...";
  std::string text;
  bool key = true;
  switch (tree.kind(value)) {
    case ValueKind::kNone: return "none";
    case ValueKind::kBool: return value == Tree::kTrue ? "true" : "false";
    case ValueKind::kInteger: return std::to_string(tree.integer(value));
    case ValueKind::kReal:
      text = std::to_string(tree.real(value));
      return text.substr(0, text.find_last_not_of('0') + 1);
    case ValueKind::kString: return std::string(tree.text(value));
    case ValueKind::kTooLarge: return "too large";
    case ValueKind::kList:
      tree.Each(value, SIZE_MAX,
                [&](ValueId item) { text += (text.empty() ? "" : ", ") + TextOf(tree, item, depth + 1); });
      return "[" + text + "]";
    case ValueKind::kDictionary:
      tree.Each(value, SIZE_MAX, [&](ValueId item) {
        text += (!key ? ": " : text.empty() ? "" : ", ") + TextOf(tree, item, depth + 1);
        key = !key;
      });
      return "{" + text + "}";
  }
  return {};
}

}  // namespace ncclwatch::analyzer::import
