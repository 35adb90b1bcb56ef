#include "analyzer/trace/row.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>

#include "ncclwatch/functions/types.h"

namespace ncclwatch::analyzer {
namespace {

using functions::Family;

constexpr const char* kResults[] = {"success",        "unhandled CUDA error", "system error",
                                    "internal error", "invalid argument",     "invalid usage",
                                    "remote error",   "in progress",          "timeout"};
constexpr int kSuccess = 0;
constexpr int kInProgress = 7;

std::string ResultName(std::int32_t result) {
  if (result >= 0 && result < static_cast<int>(std::size(kResults))) return kResults[result];
  return fmt::format("error {}", result);
}

std::string ReductionName(std::uint8_t reduction) {
  if (reduction == format::kNoReduction) return "";
  if (reduction == format::kUserReduction) return "user";
  return std::string(functions::ReductionName(reduction));
}

std::vector<std::string> FlagNames(std::uint32_t flags) {
  std::vector<std::string> names;
  const auto add = [&](std::uint32_t flag, const char* name) {
    if (flags & flag) names.emplace_back(name);
  };
  add(format::kEmpty, "empty");
  add(format::kOneRank, "one_rank");
  add(format::kCaptured, "captured");
  add(format::kNonBlocking, "non_blocking");
  add(format::kGrouped, "grouped");
  add(format::kMarkUnavailable, "no_mark");
  return names;
}

// Tests of one request in a row, which have no result of their own.
bool IsRowOfTests(const reader::Call& call) {
  return functions::IsMpi(call.function) && (call.flags & format::kPolls) != 0;
}

// Dumps of other recorders tell no results.
bool HasResult(const reader::Call& call) { return !IsRowOfTests(call) && call.result != format::kNoResult; }

void SetArguments(const reader::Call& call, Row* row) {
  const functions::FunctionInfo* info = functions::Find(call.function);
  row->op = info ? std::string(functions::OpName(call.function))
                 : fmt::format("function {}", static_cast<std::uint32_t>(call.function));
  const Family family = info ? info->family : Family::kQuery;
  const bool collective = family == Family::kCollective || family == Family::kRooted;
  if (collective || family == Family::kPointToPoint) {
    row->count = call.count;
    row->bytes = functions::IsMpi(call.function) ? call.bytes : call.count * functions::DatatypeBytes(call.dtype);
  }
  const bool counted = collective || family == Family::kPointToPoint || family == Family::kCreation;
  if (counted && call.position != format::kNotMatched) row->position = call.position;
  if (call.dtype != format::kNoType) row->dtype = functions::DatatypeName(call.dtype);
  row->reduction = ReductionName(call.reduction);
  if (call.root != format::kNoRank) (family == Family::kRooted ? row->root : row->peer) = call.root;
}

}  // namespace

const reader::Communicator* CommunicatorOf(const reader::BoxImage& box, const reader::Call& call) {
  const auto found = std::find_if(box.communicators.begin(), box.communicators.end(), [&](const auto& communicator) {
    return communicator.index == call.communicator && communicator.generation == call.generation;
  });
  return found == box.communicators.end() ? nullptr : &*found;
}

Standing StandingOf(const reader::Call& call, const reader::Communicator* communicator) {
  if (call.returned_ns == 0) return {"entered", true};
  if (IsRowOfTests(call)) return {"returned"};
  if (HasResult(call) && call.result != kSuccess && call.result != kInProgress) return {"failed"};
  if (!(call.flags & format::kMarked) || !communicator) return {"returned"};
  if (communicator->Finished(call.ticket)) return {"finished"};
  const bool started = (call.flags & format::kStartMarked) && communicator->Started(call.start);
  return {started ? "started" : "returned", communicator->state == format::CommunicatorState::kReady};
}

Row RowOf(const reader::BoxImage& box, const reader::Call& call, std::int64_t now_ns) {
  Row row;
  const reader::Communicator* communicator = CommunicatorOf(box, call);
  row.time = absl::FromUnixNanos(call.entered_ns + box.realtime_minus_monotonic_ns);
  row.rank = box.rank >= 0 || !communicator ? box.rank : static_cast<int>(communicator->rank);
  row.host = box.host;
  row.pid = box.pid;
  row.slot = call.slot;
  row.thread = call.thread;
  if (communicator) {
    row.communicator = communicator->id;
    if ((communicator->flags & format::kCommRankUnknown) == 0) row.communicator_rank = communicator->rank;
    row.label = communicator->label;
  }
  SetArguments(call, &row);
  row.stream = call.stream;
  if (call.group != 0) row.group = call.group - 1;
  const Standing standing = StandingOf(call, communicator);
  row.state = standing.state;
  row.pending = standing.pending;
  if (call.returned_ns != 0 && HasResult(call)) row.result = ResultName(call.result);
  row.duration =
      absl::Nanoseconds(std::max<std::int64_t>(0, (row.pending ? now_ns : call.returned_ns) - call.entered_ns));
  if (call.returned_ns != 0) row.returned = absl::FromUnixNanos(call.returned_ns + box.realtime_minus_monotonic_ns);
  row.kernel = call.kernel;
  row.site = call.site;
  if (call.site != 0) row.site_text = reader::SiteText(box, call.site);
  row.flags = FlagNames(call.flags);
  return row;
}

bool IsState(std::string_view text) {
  constexpr std::string_view kStates[] = {"entered", "returned", "started", "finished", "failed"};
  return std::find(std::begin(kStates), std::end(kStates), text) != std::end(kStates);
}

std::vector<Row> Rows(const reader::BoxImage& box, std::int64_t now_ns,
                      const std::function<bool(const reader::Call&)>& wants) {
  std::vector<Row> rows;
  for (const reader::Call& call : box.calls)
    if (wants(call)) rows.push_back(RowOf(box, call, now_ns));
  return rows;
}

}  // namespace ncclwatch::analyzer
