#include "analyzer/trace/filter.h"

#include <absl/strings/match.h>

#include <algorithm>
#include <ctime>

#include "analyzer/console/units.h"
#include "core/model/text.h"

namespace ncclwatch::analyzer {
namespace {

bool SameOp(const std::string& op, const std::string& wanted) {
  return absl::EqualsIgnoreCase(op, wanted) || absl::EqualsIgnoreCase("nccl" + op, wanted);
}

bool SameCommunicator(std::uint64_t id, const std::string& label, const std::string& wanted) {
  if (id == 0 || wanted.empty()) return false;
  return label == wanted || diagnosis::Hex16(id).starts_with(wanted);
}

template <typename Element, typename Same>
bool AnyOrEmpty(const std::vector<Element>& wanted, Same same) {
  return wanted.empty() || std::any_of(wanted.begin(), wanted.end(), same);
}

}  // namespace

bool IsOp(const std::string& word) {
  return std::any_of(std::begin(functions::kFunctions), std::end(functions::kFunctions),
                     [&](const auto& info) { return SameOp(std::string(functions::OpName(info.function)), word); });
}

bool Filter::WantsCalls(int rank, std::uint64_t begin, std::uint64_t end) const {
  if (!calls) return true;
  const auto range = calls->find(rank);
  return range != calls->end() && begin < range->second.second && end > range->second.first;
}

bool Filter::Wants(const Facts& facts) const {
  const auto is_on = [&](const std::string& wanted) {
    return facts.communicator && SameCommunicator(facts.communicator->id, facts.communicator->label, wanted);
  };
  return WantsCalls(facts.rank, facts.call.slot, facts.call.slot + 1) && (!pending || facts.standing.pending) &&
         AnyOrEmpty(ranks, [&](int rank) { return rank == facts.rank; }) && AnyOrEmpty(communicators, is_on) &&
         AnyOrEmpty(states, [&](const std::string& state) { return state == Name(facts.standing.state); }) &&
         (least_bytes == 0 || facts.bytes.value_or(0) >= least_bytes);
}

std::function<bool(const reader::Call&)> Filter::ForCalls(const reader::BoxImage& box) const {
  if (ops.empty() && !since && !until) return nullptr;
  std::vector<bool> functions;  // by number; empty: all
  if (!ops.empty())
    for (const functions::FunctionInfo& info : functions::kFunctions) {
      const auto number = static_cast<std::size_t>(info.function);
      if (number >= functions.size()) functions.resize(number + 1);
      const std::string op(functions::OpName(info.function));
      functions[number] =
          std::any_of(ops.begin(), ops.end(), [&](const std::string& wanted) { return SameOp(op, wanted); });
    }
  const std::int64_t real = box.realtime_minus_monotonic_ns;
  const std::int64_t from = since ? absl::ToUnixNanos(*since) : INT64_MIN;
  const std::int64_t to = until ? absl::ToUnixNanos(*until) : INT64_MAX;
  const bool all_functions = ops.empty();
  return [=](const reader::Call& call) {
    const auto number = static_cast<std::size_t>(call.function);
    const std::int64_t at = call.entered_ns + real;
    return (all_functions || (number < functions.size() && functions[number])) && at >= from && at <= to;
  };
}

bool Filter::Wants(const SegmentIndex& segment, int rank) const {
  return WantsCalls(rank, segment.header.begin_slot, segment.header.end_slot) &&
         AnyOrEmpty(ranks, [&](int wanted) { return wanted == rank; }) &&
         (!since || absl::FromUnixNanos(segment.header.last_ns) >= *since) &&
         (!until || absl::FromUnixNanos(segment.header.first_ns) <= *until) &&
         AnyOrEmpty(communicators, [&](const std::string& wanted) {
           return std::any_of(segment.communicators.begin(), segment.communicators.end(),
                              [&](const auto& one) { return SameCommunicator(one.id, one.label, wanted); });
         });
}

MergeRequests Filter::Requests() const {
  return {[this](const SegmentIndex& segment, int rank) { return Wants(segment, rank); },
          [this](const Piece& piece) { return ForCalls(piece); }};
}

std::optional<absl::Time> ParseMoment(const std::string& text, absl::Time end) {
  if (const auto before = ParseDuration(text)) return end - *before;
  absl::Time moment;
  if (absl::ParseTime("%Y-%m-%dT%H:%M:%E*SZ", text, &moment, nullptr)) return moment;
  if (!absl::ParseTime("%H:%M:%E*S", text, &moment, nullptr) && !absl::ParseTime("%H:%M", text, &moment, nullptr))
    return std::nullopt;
  // By the C library, as ClockText() does it.
  const std::time_t day = absl::ToTimeT(end);
  std::tm local{};
  localtime_r(&day, &local);
  const absl::Duration of_day = moment - absl::UnixEpoch();
  local.tm_hour = static_cast<int>(of_day / absl::Hours(1));
  local.tm_min = static_cast<int>(of_day % absl::Hours(1) / absl::Minutes(1));
  local.tm_sec = 0;
  local.tm_isdst = -1;
  return absl::FromTimeT(std::mktime(&local)) + of_day % absl::Minutes(1);
}

}  // namespace ncclwatch::analyzer
