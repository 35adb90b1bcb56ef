#include "analyzer/trace/facts.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>

#include "core/calls/flag_names.h"
#include "ncclwatch/functions/types.h"

namespace ncclwatch::analyzer {
namespace {

using functions::Family;

constexpr int kSuccess = 0;
constexpr int kInProgress = 7;

// Tests of one request in a row, which have no result of their own.
bool IsRowOfTests(const reader::Call& call) {
  return functions::IsMpi(call.function) && (call.flags & format::kPolls) != 0;
}

// Dumps of other recorders tell no results.
bool HasResult(const reader::Call& call) {
  return call.returned_ns != 0 && !IsRowOfTests(call) && call.result != format::kNoResult;
}

template <std::size_t kCount>
std::vector<std::string> NamesOf(std::uint32_t flags, const diagnosis::FlagName (&all)[kCount]) {
  std::vector<std::string> names;
  for (const diagnosis::FlagName& one : all)
    if (flags & one.flag) names.emplace_back(one.name);
  return names;
}

void SetArguments(Facts* facts) {
  const reader::Call& call = facts->call;
  const functions::FunctionInfo* info = functions::Find(call.function);
  const Family family = info ? info->family : Family::kQuery;
  const bool collective = family == Family::kCollective || family == Family::kRooted;
  if (collective || family == Family::kPointToPoint) {
    facts->count = call.count;
    facts->bytes = functions::IsMpi(call.function) ? call.bytes : call.count * functions::DatatypeBytes(call.dtype);
  }
  const bool counted = collective || family == Family::kPointToPoint || family == Family::kCreation;
  if (counted && call.position != format::kNotMatched) facts->position = call.position;
  if (call.root != format::kNoRank) (family == Family::kRooted ? facts->root : facts->peer) = call.root;
  if (call.group != 0) facts->group = call.group - 1;
  if (call.tag != format::kNoTag && (call.flags & format::kHasParts) == 0) facts->tag = call.tag;
  if (call.completed_ns != 0) facts->completed_ns = call.completed_ns + facts->box.realtime_minus_monotonic_ns;
  if (call.waiter != 0) facts->waiter = call.waiter - 1;
  if (call.signature != 0) facts->signature = call.signature;
}

}  // namespace

const reader::Communicator* CommunicatorOf(const reader::BoxImage& box, const reader::Call& call) {
  const auto found = std::find_if(box.communicators.begin(), box.communicators.end(), [&](const auto& communicator) {
    return communicator.index == call.communicator && communicator.generation == call.generation;
  });
  return found == box.communicators.end() ? nullptr : &*found;
}

Standing StandingOf(const reader::Call& call, const reader::Communicator* communicator) {
  if (IsRowOfTests(call)) return {State::kReturned};  // each of them has
  if (call.returned_ns == 0) return {State::kEntered, true};
  if (HasResult(call) && call.result != kSuccess && call.result != kInProgress) return {State::kFailed};
  if (!(call.flags & format::kMarked) || !communicator) return {State::kReturned};
  if (communicator->Finished(call.ticket)) return {State::kFinished};
  const bool started = (call.flags & format::kStartMarked) && communicator->Started(call.start);
  return {started ? State::kStarted : State::kReturned, communicator->state == format::CommunicatorState::kReady};
}

bool IsState(std::string_view text) {
  return std::find(std::begin(kStateNames), std::end(kStateNames), text) != std::end(kStateNames);
}

Facts FactsOf(const reader::BoxImage& box, const reader::Communicator* communicator, const reader::Call& call,
              std::int64_t now_ns) {
  Facts facts{.box = box, .call = call, .communicator = communicator};
  const std::int64_t real = box.realtime_minus_monotonic_ns;
  facts.time_ns = call.entered_ns + real;
  // The last one of a row of tests has told when it was made.
  const std::int64_t returned_ns = IsRowOfTests(call) ? call.completed_ns : call.returned_ns;
  if (returned_ns != 0) facts.returned_ns = returned_ns + real;
  facts.rank = box.rank >= 0 || !communicator ? box.rank : static_cast<int>(communicator->rank);
  SetArguments(&facts);
  facts.payload = box.PayloadOf(call);
  facts.standing = StandingOf(call, communicator);
  facts.has_result = HasResult(call);
  const std::int64_t until = facts.standing.pending ? now_ns : returned_ns;
  facts.duration_ns = std::max<std::int64_t>(0, until - call.entered_ns);
  return facts;
}

std::string OpText(functions::Function function) {
  return functions::Find(function) ? std::string(functions::OpName(function))
                                   : fmt::format("function {}", static_cast<std::uint32_t>(function));
}

std::string ResultText(std::int32_t result) {
  if (result >= 0 && result < static_cast<int>(std::size(functions::kResultNames)))
    return std::string(functions::kResultNames[result]);
  return fmt::format("error {}", result);
}

std::string ReductionText(std::uint8_t reduction) {
  if (reduction == format::kNoReduction) return "";
  if (reduction == format::kUserReduction) return "user";
  return std::string(functions::ReductionName(reduction));
}

std::string DtypeText(std::uint8_t dtype) {
  return dtype == format::kNoType ? "" : std::string(functions::DatatypeName(dtype));
}

std::vector<std::string> FlagNames(std::uint32_t flags) { return NamesOf(flags, diagnosis::kFlagNames); }

std::vector<std::string> CommunicatorFlagNames(std::uint32_t flags) {
  return NamesOf(flags, diagnosis::kCommunicatorFlagNames);
}

}  // namespace ncclwatch::analyzer
