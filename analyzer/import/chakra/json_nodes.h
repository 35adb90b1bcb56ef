// Nodes of the forms of Chakra in JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "analyzer/import/chakra/node.h"

namespace ncclwatch::analyzer::import::chakra {

// Of Chakra's own rendering of its messages, or of a simulator's "workload_graph".
Node NodeOf(const nlohmann::json& object);
// The metadata of Chakra's own rendering: its attributes. None: it is a node.
std::optional<nlohmann::json> MetadataIn(const nlohmann::json& object);

// Of torch's execution traces: calls of a process group (with the attributes of Chakra, and `elements`, `dtype`, `peer`
// and `pg_size` where they are told), and what has a duration. None: it is neither.
std::optional<Node> TorchNodeOf(const nlohmann::json& object);
// The process groups that torch's execution traces list; an array of {pg_name, ranks, ...}. Null: this node does not.
nlohmann::json GroupsIn(const nlohmann::json& object);

}  // namespace ncclwatch::analyzer::import::chakra
