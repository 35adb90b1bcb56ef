#include "analyzer/player/print.h"

#include <fmt/core.h>

#include <algorithm>

#include "analyzer/console/print.h"
#include "analyzer/console/table.h"
#include "ncclwatch/functions/bandwidth.h"
#include "ncclwatch/functions/types.h"
#include "watchdog/diagnosis/model/text.h"
#include "watchdog/text/printable.h"

namespace ncclwatch::analyzer {
namespace {

using player::Kind;

std::optional<double> MedianUs(std::vector<std::int64_t> ns) {
  if (ns.empty()) return std::nullopt;
  const auto middle = ns.begin() + static_cast<std::ptrdiff_t>(ns.size() / 2);
  std::nth_element(ns.begin(), middle, ns.end());
  return static_cast<double>(*middle) / 1000;
}

// Of NCCL's calls nobody records their sizes in bytes.
std::uint64_t BytesOf(const Kind& kind) {
  return functions::IsMpi(kind.function) ? kind.bytes : kind.count * functions::DatatypeBytes(kind.dtype);
}

std::string NameOf(const Kind& kind, const RecordedProgram& program) {
  if (kind.comm < 0) return "";
  const auto at = static_cast<std::size_t>(kind.comm);
  return program.comms[at].label.empty() ? diagnosis::Hex16(program.comm_ids()[at]).substr(0, 8)
                                         : Printable(program.comms[at].label);
}

std::optional<functions::Bandwidth> BandwidthIn(const Kind& kind, const RecordedProgram& program,
                                                std::optional<double> us) {
  if (!us || kind.comm < 0) return std::nullopt;
  const auto ranks = static_cast<std::uint32_t>(program.comms[static_cast<std::size_t>(kind.comm)].size());
  return functions::BandwidthOf(functions::PatternOf(kind.function), BytesOf(kind), ranks, *us * 1000);
}

std::string Number(std::optional<double> value) { return value ? fmt::format("{:.1f}", *value) : ""; }

}  // namespace

void PrintMeasured(const Measured& measured, const RecordedProgram& program) {
  Table table({{"SIZE", true},
               {"COUNT", true},
               {"TYPE"},
               {"REDOP"},
               {"ROOT", true},
               {"OP"},
               {"COMM"},
               {"CALLS", true},
               {"RECORDED us", true},
               {"TIME us", true},
               {"ALGBW GB/s", true},
               {"BUSBW GB/s", true},
               {"WRONG", true}});
  for (const auto& [kind, of] : measured.kinds) {
    const auto us = MedianUs(of.took_ns);
    const auto bandwidth = BandwidthIn(kind, program, us);
    const bool reduces = kind.reduction != format::kNoReduction;
    const bool user = kind.reduction == format::kUserReduction;
    table.Add({fmt::format("{}", BytesOf(kind)), fmt::format("{}", kind.count),
               kind.dtype == format::kNoType ? "" : std::string(functions::DatatypeName(kind.dtype)),
               !reduces ? ""
               : user   ? "user"
                        : std::string(functions::ReductionName(kind.reduction)),
               kind.root < 0 ? "" : fmt::format("{}", kind.root), std::string(functions::OpName(kind.function)),
               NameOf(kind, program), fmt::format("{}", of.calls), Number(MedianUs(of.recorded_ns)), Number(us),
               bandwidth ? fmt::format("{:.3f}", bandwidth->algbw_GBps) : "",
               bandwidth ? fmt::format("{:.3f}", bandwidth->busbw_GBps) : "",
               of.checked == 0 ? "N/A" : fmt::format("{}", of.wrong)});
  }
  if (!table.empty()) Print("{}", table.Text());
}

nlohmann::ordered_json MeasuredJson(const Measured& measured, const RecordedProgram& program) {
  using Json = nlohmann::ordered_json;
  Json rows = Json::array();
  const auto number = [](std::optional<double> value) { return value ? Json(*value) : Json(nullptr); };
  for (const auto& [kind, of] : measured.kinds) {
    const auto us = MedianUs(of.took_ns);
    const auto bandwidth = BandwidthIn(kind, program, us);
    const bool known = kind.reduction != format::kNoReduction && kind.reduction != format::kUserReduction;
    rows.push_back(
        {{"op", functions::OpName(kind.function)},
         {"communicator", kind.comm < 0
                              ? Json(nullptr)
                              : Json(diagnosis::Hex16(program.comm_ids()[static_cast<std::size_t>(kind.comm)]))},
         {"bytes", BytesOf(kind)},
         {"count", kind.count},
         {"dtype", kind.dtype == format::kNoType ? Json(nullptr) : Json(functions::DatatypeName(kind.dtype))},
         {"reduction", known ? Json(functions::ReductionName(kind.reduction)) : Json(nullptr)},
         {"root", kind.root < 0 ? Json(nullptr) : Json(kind.root)},
         {"calls", of.calls},
         {"recorded_us", number(MedianUs(of.recorded_ns))},
         {"time_us", number(us)},
         {"algbw_GBps", bandwidth ? Json(bandwidth->algbw_GBps) : Json(nullptr)},
         {"busbw_GBps", bandwidth ? Json(bandwidth->busbw_GBps) : Json(nullptr)},
         {"checked", of.checked},
         {"wrong", of.wrong}});
  }
  return rows;
}

}  // namespace ncclwatch::analyzer
