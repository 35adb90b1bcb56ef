#include "analyzer/import/chakra/json_nodes.h"

#include <absl/strings/match.h>
#include <absl/strings/numbers.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "analyzer/import/chakra/operation_name.h"

namespace ncclwatch::analyzer::import::chakra {
namespace {

using nlohmann::json;

const json kNull;

const json& Of(const json& object, std::initializer_list<const char*> keys) {
  for (const char* key : keys)
    if (const auto found = object.find(key); found != object.end()) return *found;
  return kNull;
}

// Numbers of 64 bits are texts in protobuf's JSON.
std::int64_t NumberOf(const json& value) {
  if (value.is_number_integer()) return value.get<std::int64_t>();
  std::int64_t number = 0;
  return value.is_string() && absl::SimpleAtoi(value.get_ref<const std::string&>(), &number) ? number : 0;
}

std::int64_t FromMicros(const json& value) {
  constexpr double kMostMicros = 4e15;
  const double micros = value.is_number() ? value.get<double>() : static_cast<double>(NumberOf(value));
  return micros > 0 && micros < kMostMicros ? std::llround(micros * 1000) : 0;
}

std::string TextOf(const json& value) { return value.is_string() ? value.get<std::string>() : std::string(); }

void AddIds(const json& ids, std::vector<std::uint64_t>* to) {
  if (ids.is_array())
    for (const json& id : ids) to->push_back(static_cast<std::uint64_t>(NumberOf(id)));
  else if (!ids.is_null())
    to->push_back(static_cast<std::uint64_t>(NumberOf(ids)));
}

NodeType TypeOf(const json& type) {
  static constexpr std::string_view kNames[] = {"INVALID_NODE", "METADATA_NODE",  "MEM_LOAD_NODE",  "MEM_STORE_NODE",
                                                "COMP_NODE",    "COMM_SEND_NODE", "COMM_RECV_NODE", "COMM_COLL_NODE"};
  if (type.is_number_integer()) return static_cast<NodeType>(std::clamp<std::int64_t>(NumberOf(type), 0, 7));
  const auto found = std::find(std::begin(kNames), std::end(kNames), TextOf(type));
  return found == std::end(kNames) ? NodeType::kInvalid : static_cast<NodeType>(found - std::begin(kNames));
}

// {"name": "comm_size", "int64Val": "4096"}
json AttributeValue(const json& attribute) {
  for (const auto& [key, value] : attribute.items()) {
    if (key == "name" || key == "docString" || key == "doc_string" || key == "type") continue;
    if (value.is_object()) return Of(value, {"values"});
    if (absl::StrContains(key, "int") || absl::StrContains(key, "fixed")) return NumberOf(value);
    return value;
  }
  return nullptr;
}

void AddAttributes(const json& list, json* to) {
  if (!list.is_array()) return;
  for (const json& one : list)
    if (one.is_object())
      if (json value = AttributeValue(one); !value.is_null()) (*to)[TextOf(Of(one, {"name"}))] = std::move(value);
}

}  // namespace

Node NodeOf(const json& object) {
  Node node;
  node.id = static_cast<std::uint64_t>(NumberOf(Of(object, {"id", "Id"})));
  node.name = TextOf(Of(object, {"name", "Name"}));
  node.type = TypeOf(Of(object, {"type", "NodeType"}));
  AddIds(Of(object, {"ctrlDeps", "ctrl_deps"}), &node.after);
  AddIds(Of(object, {"dataDeps", "data_deps"}), &node.after);
  node.start_ns = FromMicros(Of(object, {"startTimeMicros", "start_time_micros"}));
  node.duration_ns = FromMicros(Of(object, {"durationMicros", "duration_micros", "runtime"}));
  for (const auto& [key, value] : object.items())
    if (value.is_primitive()) node.attributes[key] = value;
  AddAttributes(Of(object, {"attr"}), &node.attributes);
  return node;
}

std::optional<json> MetadataIn(const json& object) {
  if (!object.contains("version") || object.contains("type")) return std::nullopt;
  json attributes = json::object();
  AddAttributes(Of(object, {"attr"}), &attributes);
  return attributes;
}

// ---- torch's execution traces ------------------------------------------------------------------------------------

namespace {

// {"values": [], "shapes": [], "types": []} since 1.0.2; before, "inputs", "input_shapes" and "input_types".
const json& Inputs(const json& object, const char* part, const char* before) {
  const json& inputs = Of(object, {"inputs"});
  return inputs.is_object() ? Of(inputs, {part}) : Of(object, {before});
}

json TorchAttributes(const json& object) {
  json attributes = json::object();
  if (const json& list = Of(object, {"attrs"}); list.is_array())
    for (const json& one : list)
      if (one.is_object() && one.contains("value")) attributes[TextOf(Of(one, {"name"}))] = one["value"];
  return attributes;
}

// A tensor is [id, storage, offset, elements, bytes of one, device]; there may be lists of them.
std::int64_t ElementsOf(const json& value) {
  constexpr std::size_t kPlace = 3, kParts = 6;
  if (!value.is_array() || value.empty()) return 0;
  if (value.size() >= kParts && value[0].is_number_integer()) return std::max<std::int64_t>(NumberOf(value[kPlace]), 0);
  std::int64_t sum = 0;
  for (const json& one : value)
    if (one.is_array() && __builtin_add_overflow(sum, ElementsOf(one), &sum)) return 0;
  return sum;
}

// Where the name of the collective stands among the inputs of record_param_comms; before it stand the process group
// and a rank.
std::optional<std::size_t> PlaceOfName(const json& values, const json& types) {
  constexpr std::size_t kBefore = 2;
  for (std::size_t i = kBefore; values.is_array() && types.is_array() && i < std::min(values.size(), types.size()); ++i)
    if (TextOf(types[i]) == "String" && FunctionIn(TextOf(values[i])) != functions::Function::kNone) return i;
  return std::nullopt;
}

void SetProcessGroup(const json& group, json* attributes) {
  if (attributes->contains("pg_name")) return;
  if (group.is_array() && !group.empty()) (*attributes)["pg_name"] = TextOf(group[0]);
  if (group.is_string()) (*attributes)["pg_name"] = group;
  // The place of an object in the memory of this process.
  if (group.is_number_integer()) (*attributes)["pg_address"] = group;
}

void SetAmount(const json& object, const json& values, const json& types, bool output, json* attributes) {
  const json& outputs = Of(object, {"outputs"});
  const json& given = outputs.is_object() ? Of(outputs, {"values"}) : outputs;
  const char* const told = output ? "out_msg_nelems" : "in_msg_nelems";
  (*attributes)["elements"] = attributes->contains(told) ? NumberOf((*attributes)[told])
                              : output                   ? ElementsOf(given)
                                                         : ElementsOf(values[0]);
  if (!attributes->contains("dtype") && !types.empty() && absl::StrContains(TextOf(types[0]), "Tensor"))
    (*attributes)["dtype"] = types[0];
}

// What a call of a process group was made with; false: it moves nothing (wait, init).
bool SetCall(const json& object, Node* node) {
  const json& values = Inputs(object, "values", "inputs");
  const json& types = Inputs(object, "types", "input_types");
  const auto place = PlaceOfName(values, types);
  if (!place) return false;
  node->name = TextOf(values[*place]);
  const functions::Function function = FunctionIn(node->name);
  node->type = function == functions::Function::ncclSend   ? NodeType::kSend
               : function == functions::Function::ncclRecv ? NodeType::kReceive
                                                           : NodeType::kCollective;
  SetProcessGroup(values[*place - 2], &node->attributes);
  node->attributes["peer"] = NumberOf(values[*place - 1]);
  const bool output = function == functions::Function::ncclReduceScatter || function == functions::Function::ncclRecv;
  SetAmount(object, values, types, output, &node->attributes);
  return true;
}

}  // namespace

std::optional<Node> TorchNodeOf(const json& object) {
  Node node;
  node.id = static_cast<std::uint64_t>(NumberOf(Of(object, {"id"})));
  node.name = TextOf(Of(object, {"name"}));
  node.start_ns = FromMicros(Of(object, {"ts"}));
  node.duration_ns = FromMicros(Of(object, {"dur"}));
  node.attributes = TorchAttributes(object);
  node.attributes["is_cpu_op"] = Of(object, {"cat"}) != "kernel";
  if (const json& stream = Of(object, {"stream"}); stream.is_number_integer()) node.attributes["stream"] = stream;
  if (node.name == "record_param_comms") {
    if (!SetCall(object, &node)) return std::nullopt;
    node.attributes["is_cpu_op"] = false;
    return node;
  }
  if (node.duration_ns == 0) return std::nullopt;
  node.type = NodeType::kCompute;
  return node;
}

json GroupsIn(const json& object) {
  if (!absl::StrContains(TextOf(Of(object, {"name"})), "process_group:init")) return nullptr;
  const json& values = Inputs(object, "values", "inputs");
  if (!values.is_array() || values.empty()) return nullptr;
  json groups = json::parse(TextOf(values[0]), nullptr, false);
  return groups.is_array() ? groups : json();
}

}  // namespace ncclwatch::analyzer::import::chakra
