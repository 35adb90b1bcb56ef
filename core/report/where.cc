#include "core/report/where.h"

#include <algorithm>

#include "core/model/text.h"

namespace ncclwatch::diagnosis {
namespace {

constexpr std::size_t kMostLines = 8;  // of one finding; the rest is in the files
constexpr std::size_t kMostState = 4;  // of one rank: what holds it up, its children, its memory, what it waits for

const reader::ProcessStacks* Find(const std::vector<reader::ProcessStacks>& stacks, const Culprit& culprit) {
  if (!culprit.pid || culprit.exit) return nullptr;
  // In several containers one pid may be several processes of one host; their start times tell them apart.
  const auto found = std::find_if(stacks.begin(), stacks.end(), [&](const reader::ProcessStacks& one) {
    return one.pid == *culprit.pid && one.start_time == culprit.start_time &&
           (one.host == culprit.host || one.host == reader::kNoHost);
  });
  return found == stacks.end() ? nullptr : &*found;
}

std::string StandsIn(const std::vector<std::string>& where) {
  std::string text = where.front();
  for (std::size_t i = 1; i < where.size(); ++i) text += (i == 1 ? ", called from " : ", from ") + where[i];
  return text;
}

// Where the rest of it is. Names within the run directory: a copy of it is as good.
std::string FilesOf(const Finding& finding) {
  const Culprit* first = nullptr;
  bool one_rank = true, one_host = true;
  for (const Culprit& culprit : finding.culprit_details) {
    if (culprit.where.empty()) continue;
    if (!first) first = &culprit;
    one_rank &= &culprit == first;
    one_host &= culprit.host == first->host;
  }
  if (!first) return {};
  std::string text = "all stacks: stacks/merged.txt in the run directory";
  text += one_host ? " on " + first->host : " on each of their hosts";
  return one_rank ? text + "; of rank " + std::to_string(first->rank) + " alone, thread by thread: stacks/" +
                        std::to_string(*first->pid) + ".txt"
                  : text;
}

struct Lines {
  std::vector<std::string> telling;  // where they stand, and what holds them up
  std::vector<std::string> more;     // of one alone: its children, its memory
};

// Ranks that stand in the same place in one line, in the order of the first rank of each.
Lines LinesOf(const Finding& finding) {
  struct Place {
    const Culprit* first;
    std::vector<int> ranks;
  };
  std::vector<Place> places;
  for (const Culprit& culprit : finding.culprit_details) {
    if (culprit.where.empty() && culprit.state.empty()) continue;
    const auto same = std::find_if(places.begin(), places.end(), [&](const Place& place) {
      return place.first->where == culprit.where && (!culprit.where.empty() || place.first->state == culprit.state);
    });
    if (same == places.end())
      places.push_back({&culprit, {culprit.rank}});
    else
      same->ranks.push_back(culprit.rank);
  }
  Lines lines;
  for (const auto& [culprit, ranks] : places) {
    if (lines.telling.size() >= kMostLines) break;
    if (!culprit->where.empty())
      lines.telling.push_back(Ranks(ranks) + (ranks.size() == 1 ? " stands in " : " stand in ") +
                              StandsIn(culprit->where));
    if (ranks.size() > 1 && !culprit->where.empty()) continue;
    // Of several each gets only what holds it up.
    const std::size_t most = places.size() == 1 ? kMostState : 1;
    for (std::size_t i = 0; i < std::min(most, culprit->state.size()); ++i)
      (i == 0 ? lines.telling : lines.more).push_back(Ranks(ranks) + ": " + culprit->state[i]);
  }
  return lines;
}

}  // namespace

void UseStacks(const std::vector<reader::VerdictStacks>& all, Snapshot* snapshot) {
  for (const reader::VerdictStacks& stacks : all)
    if (stacks.verdict_at_ns == snapshot->now_ns) snapshot->stacks = stacks.processes;
}

void AddWhere(const std::vector<reader::ProcessStacks>& stacks, Diagnosis* diagnosis) {
  if (stacks.empty()) return;
  for (Finding& finding : diagnosis->findings) {
    for (Culprit& culprit : finding.culprit_details)
      if (const reader::ProcessStacks* own = Find(stacks, culprit)) {
        culprit.where = own->where;
        culprit.state = own->state;
      }
    const Lines lines = LinesOf(finding);
    finding.evidence.insert(finding.evidence.begin(), lines.telling.begin(), lines.telling.end());
    finding.evidence.insert(finding.evidence.end(), lines.more.begin(), lines.more.end());
    if (std::string files = FilesOf(finding); !files.empty())
      finding.next_steps.insert(finding.next_steps.begin(), std::move(files));
  }
}

std::vector<std::string> WhereLines(const Finding& finding) {
  Lines lines = LinesOf(finding);
  lines.telling.insert(lines.telling.end(), lines.more.begin(), lines.more.end());
  return lines.telling;
}

std::vector<std::string> WhereLines(const Diagnosis& diagnosis) {
  std::vector<std::string> all;
  for (const Finding& finding : diagnosis.findings)
    for (std::string& line : WhereLines(finding))
      if (std::find(all.begin(), all.end(), line) == all.end()) all.push_back(std::move(line));
  return all;
}

}  // namespace ncclwatch::diagnosis
