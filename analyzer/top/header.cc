#include "analyzer/top/header.h"

#include <absl/time/time.h>
#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "analyzer/console/units.h"
#include "core/model/text.h"
#include "core/text/printable.h"

namespace ncclwatch::analyzer::top {
namespace {

constexpr std::size_t kMostCommunicators = 4;

std::string TimeText(double seconds) { return DurationText(absl::Seconds(seconds)); }

Line JobLine(const Job& job, const std::string& clock) {
  std::set<std::string> hosts;
  for (const Process& process : job.processes) hosts.insert(process.host);
  std::string state(job.state);
  if (job.alive == 0)
    state += job.removed ? " (the run directory is gone; this was its last state)" : " (its last state)";
  const std::string attempt = job.attempt > 0 ? fmt::format(", attempt {}", job.attempt) : "";
  return {fmt::format("{}{}: {}, {} of {} ranks alive on {}{}{}", job.name, attempt, state, job.alive,
                      std::max<std::size_t>(job.processes.size(), static_cast<std::size_t>(job.expected)),
                      diagnosis::Plural(hosts.size(), "host"), clock.empty() ? "" : "  ", clock),
          Colour::kBold};
}

std::string SumOfRates(const Job& job) {
  double calls = 0, bytes = 0;
  bool known = false;
  for (const Process& process : job.processes) {
    if (!process.rates) continue;
    known = true;
    calls += process.rates->calls_per_s;
    bytes += process.rates->bytes_per_s;
  }
  return known ? fmt::format("{} calls/s, {}/s", CountText(calls), AmountText(bytes)) : "";
}

void AddSteps(const Job& job, std::vector<Line>* lines) {
  std::vector<std::string> parts;
  if (const auto& step = job.assessment.step) {
    parts.push_back(fmt::format("step {}: compute {}, communication {}, waiting {}, idle {}", TimeText(step->step_s),
                                TimeText(step->compute_s), TimeText(step->exposed_s), TimeText(step->wait_s),
                                TimeText(step->idle_s)));
  }
  if (std::string rates = SumOfRates(job); !rates.empty()) parts.push_back(std::move(rates));
  if (!parts.empty()) lines->push_back({diagnosis::Join(parts, "; ")});
}

void AddFindings(const Job& job, std::vector<Line>* lines) {
  for (const diagnosis::Finding& finding : job.assessment.findings)
    lines->push_back(
        {fmt::format("{} ({}): {}", diagnosis::Name(finding.kind), diagnosis::Name(finding.certainty), finding.summary),
         finding.certainty == diagnosis::Certainty::kCertain ? Colour::kRed : Colour::kYellow});
}

std::string LastText(const Communicator& communicator) {
  if (communicator.last.empty()) return "";
  const std::string ranks = diagnosis::Ranks(diagnosis::SortedUnique(communicator.last));
  if (!communicator.ahead.empty())
    return fmt::format("; ahead: {} (by {})", diagnosis::Ranks(diagnosis::SortedUnique(communicator.ahead)),
                       diagnosis::Plural(communicator.behind, "collective"));
  if (communicator.behind > 0)
    return fmt::format("; last: {} ({} behind)", ranks, diagnosis::Plural(communicator.behind, "collective"));
  return fmt::format("; last: {} ({} after the middle one)", ranks, TimeText(communicator.late_s));
}

void AddCommunicators(const Job& job, std::vector<Line>* lines) {
  for (std::size_t i = 0; i < std::min(job.communicators.size(), kMostCommunicators); ++i) {
    const Communicator& one = job.communicators[i];
    const std::string seen = one.seen < one.size ? fmt::format(" ({} shown)", one.seen) : "";
    const std::string position = one.position ? fmt::format(", position {}", *one.position) : "";
    lines->push_back(
        {fmt::format("communicator {}: {} ranks{}{}{}", NameOf(job, one.id), one.size, seen, position, LastText(one)),
         one.behind > 1 ? Colour::kYellow : Colour::kNone});
  }
  if (job.communicators.size() > kMostCommunicators)
    lines->push_back(
        {fmt::format("and {} smaller communicators", job.communicators.size() - kMostCommunicators), Colour::kDim});
}

}  // namespace

std::string NameOf(const Job& job, std::uint64_t communicator) {
  diagnosis::CommunicatorNames names;
  bool labelled = false;
  for (const Communicator& one : job.communicators) {
    names.Add(one.id, one.label);
    labelled |= one.id == communicator && !one.label.empty();
  }
  return labelled ? names.Short(communicator) : diagnosis::Hex16(communicator);
}

std::string CountText(double per_s) { return per_s < 10 ? fmt::format("{:.1f}", per_s) : fmt::format("{:.0f}", per_s); }

std::string AmountText(double bytes) {
  constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB", "PB"};
  std::size_t unit = 0;
  for (; bytes >= 1000 && unit + 1 < std::size(kUnits); bytes /= 1000) ++unit;
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.1f} {}", bytes, kUnits[unit]);
}

std::vector<Line> HeaderOf(const Job& job, const std::string& clock) {
  std::vector<Line> lines{JobLine(job, clock)};
  if (!job.not_shown.empty())
    lines.push_back({fmt::format("not shown: {} (no black box on this machine)", diagnosis::Ranks(job.not_shown)),
                     Colour::kYellow});
  if (!job.unreadable.empty())
    lines.push_back(
        {fmt::format("cannot be read: {}{}", job.unreadable.front(),
                     job.unreadable.size() > 1 ? fmt::format(" and {} more", job.unreadable.size() - 1) : ""),
         Colour::kYellow});
  AddFindings(job, &lines);
  AddSteps(job, &lines);
  AddCommunicators(job, &lines);
  for (Line& line : lines) line.text = Printable(line.text);
  return lines;
}

}  // namespace ncclwatch::analyzer::top
