#include "analyzer/top/rows.h"

#include <absl/strings/ascii.h>
#include <absl/time/time.h>
#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <tuple>

#include "analyzer/console/units.h"
#include "analyzer/top/header.h"
#include "core/model/text.h"

namespace ncclwatch::analyzer::top {
namespace {

const Process& ProcessOf(const Job& job, const Member& member) { return job.processes[member.process]; }

std::string RankText(const Job& job, const Member& member) {
  const int rank = ProcessOf(job, member).rank;
  return rank < 0 ? "?" : fmt::format("{}", rank);
}

std::string CommunicatorText(const Job& job, const Member& member) {
  return member.size == 0 ? "-" : NameOf(job, member.communicator);
}

std::string StateText(const Job& job, const Member& member) {
  const std::string_view state = member.state.empty() ? "-" : member.state;
  return ProcessOf(job, member).alive ? std::string(state) : fmt::format("ended ({})", state);
}

std::string StepText(const Job& job, const Member& member) {
  const auto step = job.assessment.steps.find(ProcessOf(job, member).rank);
  return step == job.assessment.steps.end() ? "" : fmt::format("{}", step->second);
}

constexpr Column kColumns[] = {
    {"RANK", true, 4, 9, RankText},
    {"HOST", false, 4, 2, [](const Job& job, const Member& member) { return ProcessOf(job, member).host; }},
    {"PID", true, 3, 0,
     [](const Job& job, const Member& member) { return fmt::format("{}", ProcessOf(job, member).pid); }},
    {"COMMUNICATOR", false, 12, 5, CommunicatorText},
    {"POSITION", true, 8, 6,
     [](const Job&, const Member& member) { return member.position ? fmt::format("{}", *member.position) : "-"; }},
    {"BEHIND", true, 6, 8,
     [](const Job&, const Member& member) { return member.behind > 0 ? fmt::format("{}", member.behind) : ""; }},
    {"STATE", false, 8, 7, StateText},
    {"CALL", false, 9, 4, [](const Job&, const Member& member) { return std::string(member.op); }},
    {"SIZE", true, 8, 1, [](const Job&, const Member& member) { return member.bytes ? BytesText(*member.bytes) : ""; }},
    {"SINCE", true, 8, 3,
     [](const Job&, const Member& member) {
       return member.op.empty() ? "" : DurationText(absl::Seconds(member.since_s));
     }},
    {"CALLS/s", true, 7, 3,
     [](const Job&, const Member& member) { return member.rates ? CountText(member.rates->calls_per_s) : ""; }},
    {"BYTES/s", true, 8, 2,
     [](const Job&, const Member& member) { return member.rates ? AmountText(member.rates->bytes_per_s) : ""; }},
    {"STEP", true, 4, 1, StepText},
};

bool Contains(std::string_view text, std::string_view part) {
  const auto same = [](char a, char b) { return absl::ascii_tolower(a) == absl::ascii_tolower(b); };
  return std::search(text.begin(), text.end(), part.begin(), part.end(), same) != text.end();
}

bool Matches(const Job& job, const Member& member, const std::string& filter,
             const std::optional<std::vector<int>>& ranks) {
  const Process& process = ProcessOf(job, member);
  if (ranks) return std::find(ranks->begin(), ranks->end(), process.rank) != ranks->end();
  return Contains(process.host, filter) || Contains(CommunicatorText(job, member), filter) ||
         Contains(member.op, filter) || Contains(StateText(job, member), filter);
}

double KeyOf(const Member& member, SortBy by) {
  switch (by) {
    case SortBy::kBehind: return member.lags ? static_cast<double>(member.behind) : 0;
    case SortBy::kSince: return member.op.empty() ? -1 : member.since_s;
    case SortBy::kCalls: return member.rates ? member.rates->calls_per_s : -1;
    case SortBy::kBytes: return member.rates ? member.rates->bytes_per_s : -1;
    default: return 0;  // as they are: by rank
  }
}

}  // namespace

std::string_view Name(SortBy by) {
  constexpr std::string_view kNames[] = {"behind", "rank", "communicator", "since", "calls", "bytes"};
  return kNames[static_cast<int>(by)];
}

std::span<const Column> Columns() { return kColumns; }

std::vector<const Member*> Choose(const Job& job, const Choice& choice) {
  std::vector<const Member*> rows;
  const auto ranks = ParseRanks(choice.filter);
  for (const Member& member : job.members)
    if (choice.filter.empty() || Matches(job, member, choice.filter, ranks)) rows.push_back(&member);
  // The largest first; equal ones stay in the order of their ranks.
  if (choice.by == SortBy::kCommunicator)
    std::stable_sort(rows.begin(), rows.end(), [](const Member* a, const Member* b) {
      return std::tie(b->size, a->communicator) < std::tie(a->size, b->communicator);
    });
  else
    std::stable_sort(rows.begin(), rows.end(),
                     [&](const Member* a, const Member* b) { return KeyOf(*a, choice.by) > KeyOf(*b, choice.by); });
  if (choice.reversed) std::reverse(rows.begin(), rows.end());
  return rows;
}

}  // namespace ncclwatch::analyzer::top
