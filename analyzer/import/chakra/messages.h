// Chakra's binary form: messages of protocol buffers, each with its length before it.
#pragma once

#include <absl/functional/function_ref.h>
#include <absl/status/status.h>

#include <string>
#include <string_view>

#include "analyzer/import/chakra/node.h"

namespace ncclwatch::analyzer::import::chakra {

// The first one describes the trace, `metadata` is its attributes; all others are nodes.
class MessageReader {
 public:
  // What follows in the file; an error says at which byte of the file and ends the reading.
  absl::Status Feed(std::string_view bytes, absl::FunctionRef<void(Node)> take);
  absl::Status End() const;  // whether the last message is whole
  const nlohmann::json& metadata() const { return metadata_; }

 private:
  absl::Status Take(std::string_view message, absl::FunctionRef<void(Node)> take);

  std::string rest_;          // the beginning of a message
  std::uint64_t offset_ = 0;  // of it
  nlohmann::json metadata_;   // null: it has not come yet
};

}  // namespace ncclwatch::analyzer::import::chakra
