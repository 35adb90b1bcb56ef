#include "analyzer/player/measured.h"

#include <fmt/core.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "analyzer/files/input_file.h"
#include "analyzer/files/output_file.h"

namespace ncclwatch::analyzer {
namespace {

using LooseJson = nlohmann::json;
using player::Kind;

Kind KindOf(const player::Call& call) {
  Kind kind{.function = call.as.function,
            .comm = call.comm,
            .count = call.as.count,
            .bytes = call.as.bytes,
            .dtype = call.as.dtype,
            .reduction = call.as.reduction};
  const functions::FunctionInfo* const info = functions::Find(kind.function);
  if (info && info->family == functions::Family::kRooted) kind.root = call.as.root;
  return kind;
}

// Of a request: until the program knew that it was over. 0: not known, as of what GPUs do.
std::int64_t RecordedNs(const reader::Call& call) {
  if (!functions::IsMpi(call.function)) return 0;
  const bool request = (call.flags & format::kRequest) != 0;
  const std::int64_t end = request ? call.completed_ns : call.returned_ns;
  return end == 0 ? 0 : end - call.entered_ns;
}

}  // namespace

void Measured::Took(const player::Call& call, std::int64_t ns) {
  MeasuredKind& kind = kinds[KindOf(call)];
  ++kind.calls;
  if (ns > 0) kind.took_ns.push_back(ns);
  if (const std::int64_t recorded = RecordedNs(call.as); recorded > 0) kind.recorded_ns.push_back(recorded);
}

void Measured::Arrived(const player::Call& call, Data data) {
  MeasuredKind& kind = kinds[KindOf(call)];
  kind.checked += data != Data::kNotChecked;
  kind.wrong += data == Data::kWrong;
}

void Measured::NotPlayed(const player::Call& call) { ++not_played[std::string(functions::OpName(call.as.function))]; }

std::uint64_t Measured::wrong() const {
  std::uint64_t wrong = 0;
  for (const auto& [kind, measured] : kinds) wrong += measured.wrong;
  return wrong;
}

absl::Status Measured::Write(const std::string& path) const {
  LooseJson rows = LooseJson::array();
  for (const auto& [kind, of] : kinds)
    rows.push_back({static_cast<std::uint32_t>(kind.function), kind.comm, kind.count, kind.bytes, kind.dtype,
                    kind.reduction, kind.root, of.calls, of.checked, of.wrong, of.took_ns, of.recorded_ns});
  return WriteFile(path, LooseJson{{"kinds", rows}, {"not_played", not_played}}.dump());
}

absl::Status Measured::Add(const std::string& path) {
  InputFile file(path);
  const LooseJson all = LooseJson::parse(file, nullptr, false);
  const auto bad = [&] { return absl::DataLossError(path + " is not what a rank of a replay writes"); };
  if (!all.is_object()) return bad();
  try {
    for (const LooseJson& row : all.at("kinds")) {
      const Kind kind{.function = static_cast<functions::Function>(row.at(0).get<std::uint32_t>()),
                      .comm = row.at(1),
                      .count = row.at(2),
                      .bytes = row.at(3),
                      .dtype = row.at(4),
                      .reduction = row.at(5),
                      .root = row.at(6)};
      MeasuredKind& to = kinds[kind];
      to.calls += row.at(7).get<std::uint64_t>();
      to.checked += row.at(8).get<std::uint64_t>();
      to.wrong += row.at(9).get<std::uint64_t>();
      for (const LooseJson& ns : row.at(10)) to.took_ns.push_back(ns);
      for (const LooseJson& ns : row.at(11)) to.recorded_ns.push_back(ns);
    }
    for (const auto& [op, calls] : all.at("not_played").items()) not_played[op] += calls.get<std::uint64_t>();
  } catch (const LooseJson::exception&) {
    return bad();
  }
  return absl::OkStatus();
}

}  // namespace ncclwatch::analyzer
