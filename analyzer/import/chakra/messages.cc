#include "analyzer/import/chakra/messages.h"

#include <fmt/core.h>

#include <algorithm>
#include <protozero/pbf_reader.hpp>
#include <utility>

namespace ncclwatch::analyzer::import::chakra {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMostMessageBytes = 64u << 20;
constexpr std::size_t kMostLengthBytes = 10;
constexpr std::uint64_t kMostMicros = std::uint64_t{1} << 52;

// Numbers of et_def.proto.
namespace field {
constexpr std::uint32_t kMetadataAttribute = 2;
constexpr std::uint32_t kId = 1, kName = 2, kType = 3, kCtrlDeps = 4, kDataDeps = 5, kStart = 6, kDuration = 7,
                        kAttribute = 10;
constexpr std::uint32_t kDouble = 3, kFloat = 5, kSint32 = 15, kSint64 = 17, kFixed32 = 19, kFixed64 = 21,
                        kSfixed32 = 23, kSfixed64 = 25, kBool = 27, kBoolList = 28, kText = 29;
}  // namespace field

std::string ViewText(const protozero::data_view& view) { return {view.data(), view.size()}; }

using protozero::tag_and_type;
using Wire = protozero::pbf_wire_type;

json BoolsOf(protozero::pbf_reader list) {
  json values = json::array();
  while (list.next()) {
    switch (list.tag_and_type()) {
      case tag_and_type(1, Wire::varint): values.push_back(list.get_bool()); break;
      case tag_and_type(1, Wire::length_delimited):
        for (const bool value : list.get_packed_bool()) values.push_back(value);
        break;
      default: list.skip();
    }
  }
  return values;
}

// Null: of a kind that nothing here asks for.
json ValueOf(protozero::pbf_reader* from) {
  switch (from->tag_and_type()) {
    case tag_and_type(field::kDouble, Wire::fixed64): return from->get_double();
    case tag_and_type(field::kFloat, Wire::fixed32): return from->get_float();
    case tag_and_type(field::kSint32, Wire::varint): return from->get_sint32();
    case tag_and_type(field::kSint64, Wire::varint): return from->get_sint64();
    case tag_and_type(field::kFixed32, Wire::fixed32): return from->get_fixed32();
    case tag_and_type(field::kFixed64, Wire::fixed64): return from->get_fixed64();
    case tag_and_type(field::kSfixed32, Wire::fixed32): return from->get_sfixed32();
    case tag_and_type(field::kSfixed64, Wire::fixed64): return from->get_sfixed64();
    case tag_and_type(field::kBool, Wire::varint): return from->get_bool();
    case tag_and_type(field::kBoolList, Wire::length_delimited): return BoolsOf(from->get_message());
    case tag_and_type(field::kText, Wire::length_delimited): return ViewText(from->get_view());
    default: break;
  }
  if (from->wire_type() == Wire::varint) return from->get_int64();
  from->skip();
  return nullptr;
}

void AddAttribute(protozero::pbf_reader from, json* to) {
  std::string name;
  json value;
  while (from.next()) {
    if (from.tag_and_type() == tag_and_type(1, Wire::length_delimited))
      name = ViewText(from.get_view());
    else if (json one = ValueOf(&from); !one.is_null())
      value = std::move(one);
  }
  if (!name.empty() && !value.is_null()) (*to)[name] = std::move(value);
}

std::int64_t NanosecondsOf(std::uint64_t micros) {
  return static_cast<std::int64_t>(std::min(micros, kMostMicros)) * 1000;
}

Node ParseNode(std::string_view message) {
  Node node;
  protozero::pbf_reader from(message.data(), message.size());
  while (from.next()) {
    switch (from.tag_and_type()) {
      case tag_and_type(field::kId, Wire::varint): node.id = from.get_uint64(); break;
      case tag_and_type(field::kName, Wire::length_delimited): node.name = ViewText(from.get_view()); break;
      case tag_and_type(field::kType, Wire::varint):
        node.type = static_cast<NodeType>(std::clamp(from.get_enum(), 0, 7));
        break;
      case tag_and_type(field::kCtrlDeps, Wire::varint):
      case tag_and_type(field::kDataDeps, Wire::varint): node.after.push_back(from.get_uint64()); break;
      case tag_and_type(field::kCtrlDeps, Wire::length_delimited):
      case tag_and_type(field::kDataDeps, Wire::length_delimited):
        for (const std::uint64_t id : from.get_packed_uint64()) node.after.push_back(id);
        break;
      case tag_and_type(field::kStart, Wire::varint): node.start_ns = NanosecondsOf(from.get_uint64()); break;
      case tag_and_type(field::kDuration, Wire::varint): node.duration_ns = NanosecondsOf(from.get_uint64()); break;
      case tag_and_type(field::kAttribute, Wire::length_delimited):
        AddAttribute(from.get_message(), &node.attributes);
        break;
      default: from.skip();
    }
  }
  return node;
}

json ParseMetadata(std::string_view message) {
  json attributes = json::object();
  protozero::pbf_reader from(message.data(), message.size());
  while (from.next()) {
    if (from.tag_and_type() == tag_and_type(field::kMetadataAttribute, Wire::length_delimited))
      AddAttribute(from.get_message(), &attributes);
    else
      from.skip();
  }
  return attributes;
}

// The length of a message and how many bytes say so; 0 bytes: they have not all come.
struct Length {
  std::uint64_t message = 0;
  std::size_t bytes = 0;
};
Length LengthOf(std::string_view bytes) {
  Length length;
  for (std::size_t i = 0; i < std::min(bytes.size(), kMostLengthBytes); ++i) {
    length.message |= std::uint64_t{static_cast<unsigned char>(bytes[i]) & 0x7fu} << 7 * i;
    if ((bytes[i] & 0x80) == 0) return {length.message, i + 1};
  }
  return {bytes.size() < kMostLengthBytes ? 0 : UINT64_MAX, 0};
}

}  // namespace

absl::Status MessageReader::Take(std::string_view message, absl::FunctionRef<void(Node)> take) {
  try {
    if (metadata_.is_null())
      metadata_ = ParseMetadata(message);
    else
      take(ParseNode(message));
    return absl::OkStatus();
  } catch (const protozero::exception& error) {
    return absl::DataLossError(fmt::format("at byte {}: no node of Chakra: {}", offset_, error.what()));
  }
}

absl::Status MessageReader::Feed(std::string_view bytes, absl::FunctionRef<void(Node)> take) {
  rest_ += bytes;
  std::string_view left = rest_;
  absl::Status status;
  while (status.ok()) {
    const Length length = LengthOf(left);
    if (length.message > kMostMessageBytes) {
      status = absl::DataLossError(fmt::format("at byte {}: a message of a length that cannot be", offset_));
    } else if (length.bytes == 0 || left.size() - length.bytes < length.message) {
      break;
    } else {
      status = Take(left.substr(length.bytes, length.message), take);
      left.remove_prefix(length.bytes + length.message);
      offset_ += length.bytes + length.message;
    }
  }
  rest_ = std::string(left);
  return status;
}

absl::Status MessageReader::End() const {
  if (rest_.empty() && !metadata_.is_null()) return absl::OkStatus();
  return absl::DataLossError(fmt::format("at byte {}: cut off", offset_));
}

}  // namespace ncclwatch::analyzer::import::chakra
