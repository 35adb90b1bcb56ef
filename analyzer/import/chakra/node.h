// A node of a Chakra execution trace, in whatever form it was written.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace ncclwatch::analyzer::import::chakra {

// Numbers of et_def.proto.
enum class NodeType : std::uint8_t {
  kInvalid,
  kMetadata,
  kLoad,
  kStore,
  kCompute,
  kSend,
  kReceive,
  kCollective,
};

struct Node {
  std::uint64_t id = 0;
  std::string name;
  NodeType type = NodeType::kInvalid;
  std::vector<std::uint64_t> after;            // ids
  std::int64_t start_ns = 0, duration_ns = 0;  // 0: not told
  nlohmann::json attributes = nlohmann::json::object();
};

}  // namespace ncclwatch::analyzer::import::chakra
