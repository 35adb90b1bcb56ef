#include "analyzer/import/inspector/operation.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

namespace ncclwatch::analyzer::import::inspector {
namespace {

using Json = nlohmann::json;
using functions::Function;

constexpr std::int32_t kMostRanks = 1 << 20;
constexpr double kMost = 4e18;
constexpr std::int64_t kLongest_us = 3600ll * 1'000'000;    // an hour, of an operation
constexpr std::int64_t kLatest_us = 4'000'000'000'000'000;  // the year 2096

const Json* Find(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

std::string TextOf(const Json& object, const char* key) {
  const Json* const value = Find(object, key);
  return value && value->is_string() ? value->get<std::string>() : std::string();
}

// None: it is not there, is no number, or one that cannot be.
std::optional<std::int64_t> NumberOf(const Json& object, const char* key) {
  const Json* const value = Find(object, key);
  if (!value || !value->is_number()) return std::nullopt;
  const double number = value->get<double>();
  if (!(number >= 0) || number > kMost) return std::nullopt;
  return value->is_number_integer() ? value->get<std::int64_t>() : static_cast<std::int64_t>(number);
}

// 0: not told, or more than can be.
std::int64_t Nanoseconds(const Json& object, const char* key, std::int64_t most_us) {
  const std::int64_t reported_us = NumberOf(object, key).value_or(0);
  return reported_us <= most_us ? reported_us * 1000 : 0;
}

std::optional<Function> FunctionOf(const std::string& name) {
  for (const functions::FunctionInfo& info : functions::kFunctions)
    if (!functions::IsMpi(info.function) && functions::OpName(info.function) == name &&
        (functions::IsCollective(info.function) || functions::IsMessage(info.function)))
      return info.function;
  return std::nullopt;
}

absl::Status ReadMember(const Json& line, Member* member) {
  const Json *const header = Find(line, "header"), *const metadata = Find(line, "metadata");
  if (!header || !metadata) return absl::InvalidArgumentError("no header or metadata");
  member->communicator = TextOf(*header, "id");
  member->label = TextOf(*header, "comm_name");
  if (member->label == "unknown") member->label.clear();
  member->host = TextOf(*metadata, "hostname");
  member->pid = static_cast<std::uint32_t>(NumberOf(*metadata, "pid").value_or(0));
  const auto rank = NumberOf(*header, "rank"), size = NumberOf(*header, "n_ranks");
  if (member->communicator.empty() || !rank || !size || *size > kMostRanks || *rank >= *size)
    return absl::InvalidArgumentError("it does not say which rank of which communicator");
  member->rank = static_cast<std::int32_t>(*rank);
  member->size = static_cast<std::int32_t>(*size);
  return absl::OkStatus();
}

// The keys of collectives and of messages differ in how they begin.
absl::Status ReadOperation(const Json& line, Operation* operation) {
  const Json* reported = Find(line, "coll_perf");
  operation->is_message = !reported;
  if (!reported) reported = Find(line, "p2p_perf");
  if (!reported) return absl::InvalidArgumentError("neither coll_perf nor p2p_perf");
  const std::string kind = operation->is_message ? "p2p" : "coll";
  const auto key = [&](const char* rest) { return kind + rest; };
  const std::string name = TextOf(*reported, kind.c_str());
  const auto function = FunctionOf(name);
  if (!function) return absl::UnimplementedError(name.empty() ? "no operation" : name);
  operation->function = *function;
  const auto number = NumberOf(*reported, key("_sn").c_str()),
             bytes = NumberOf(*reported, key("_msg_size_bytes").c_str());
  if (!number || !bytes) return absl::InvalidArgumentError("no number or size");
  operation->number = static_cast<std::uint64_t>(*number);
  operation->bytes = static_cast<std::uint64_t>(*bytes);
  operation->peer = static_cast<std::int32_t>(
      std::min<std::int64_t>(NumberOf(*reported, key("_peer").c_str()).value_or(-1), kMostRanks));
  // Of clocks on the host it is not known what they measure; older versions do not say which clock it was.
  const std::string source = TextOf(*reported, key("_timing_source").c_str());
  if (source.empty() || source == "kernel_gpu")
    operation->kernel_ns = Nanoseconds(*reported, key("_exec_time_us").c_str(), kLongest_us);
  if (const Json* const instants = Find(*reported, "event_trace_ts"))
    operation->called_ns = Nanoseconds(*instants, key("_start_ts").c_str(), kLatest_us);
  return absl::OkStatus();
}

}  // namespace

bool LooksLikeLine(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  return begin != std::string_view::npos && text[begin] == '{' && text.find("\"header\"") != std::string_view::npos &&
         text.find("\"n_ranks\"") != std::string_view::npos;
}

absl::StatusOr<Line> ParseLine(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return absl::InvalidArgumentError("no JSON object");
  Line line;
  absl::Status status = ReadMember(json, &line.member);
  if (status.ok()) status = ReadOperation(json, &line.operation);
  if (!status.ok()) return status;
  line.operation.written_ns = Nanoseconds(*Find(json, "metadata"), "dump_timestamp_us", kLatest_us);
  return line;
}

}  // namespace ncclwatch::analyzer::import::inspector
