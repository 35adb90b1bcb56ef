// Chakra's forms in JSON: one document after another (the metadata, then each node), or one document with an array of
// nodes ("nodes" of torch's execution traces, "workload_graph" of simulators).
#pragma once

#include <absl/functional/function_ref.h>
#include <absl/status/status.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace ncclwatch::analyzer::import::chakra {

// Cuts a long text into the objects that are nodes, so that only one of them is in memory at a time.
class ObjectCutter {
 public:
  // `take`: the text of a node, or of a document that holds no array of nodes.
  absl::Status Feed(std::string_view text, absl::FunctionRef<void(std::string_view)> take);
  absl::Status End() const;
  std::uint64_t offset() const { return offset_; }  // of what was read so far
  bool in_array() const { return array_; }
  // What the document has before and, at the end, behind its array of nodes. Null: it has none, or it is damaged.
  const nlohmann::json& head() const { return head_; }
  nlohmann::json Tail() const;

 private:
  bool BeginsArray() const;
  void Open(char bracket);
  void Close(absl::FunctionRef<void(std::string_view)> take);

  std::string text_;
  nlohmann::json head_;
  std::uint64_t offset_ = 0;
  std::size_t depth_ = 0;
  bool array_ = false, in_text_ = false, escaped_ = false;
};

}  // namespace ncclwatch::analyzer::import::chakra
