#include "analyzer/triage/finding.h"

#include <algorithm>
#include <set>
#include <utility>

#include "analyzer/triage/whose.h"

namespace ncclwatch::analyzer {
namespace {

// Ranks that show the same within this of the first are told together with it.
constexpr absl::Duration kTogether = absl::Seconds(10);

// "{size}" by the field of that name. `all`: every one of them is there.
std::string FillFields(std::string_view summary, const Match& match, bool* all) {
  std::string text;
  while (!summary.empty()) {
    const std::size_t open = summary.find('{');
    const std::size_t close = open == std::string_view::npos ? open : summary.find('}', open);
    if (close == std::string_view::npos) break;
    const std::string_view value = FieldOf(match, summary.substr(open + 1, close - open - 1));
    *all = *all && !value.empty();
    text.append(summary.substr(0, open)).append(value);
    summary.remove_prefix(close + 1);
  }
  return text.append(summary);
}

// "[ ({signal})]" is left out if a field in it is empty.
std::string Fill(std::string_view summary, const Match& match) {
  std::string text;
  while (!summary.empty()) {
    const std::size_t open = summary.find('[');
    const std::size_t close = open == std::string_view::npos ? open : summary.find(']', open);
    bool all = true;
    if (close == std::string_view::npos) return text + FillFields(summary, match, &all);
    text += FillFields(summary.substr(0, open), match, &all);
    all = true;
    const std::string part = FillFields(summary.substr(open + 1, close - open - 1), match, &all);
    if (all) text += part;
    summary.remove_prefix(close + 1);
  }
  return text;
}

}  // namespace

bool IsEarlier(const std::optional<absl::Time>& a, const std::optional<absl::Time>& b) {
  if (a && b) return *a < *b;
  return a && !b;
}

TriageFinding Tell(const Rule& rule, std::vector<const Match*> matches) {
  std::stable_sort(matches.begin(), matches.end(),
                   [](const Match* a, const Match* b) { return IsEarlier(a->at, b->at); });
  TriageFinding told;
  told.rule = &rule;
  told.confidence = rule.confidence;
  told.first = *matches.front();
  std::set<int> ranks;
  for (const Match* match : matches) {
    told.lines += match->times;
    const bool together = !match->at || !told.first.at || *match->at - *told.first.at <= kTogether;
    if (!together) continue;
    if (match->rank >= 0) ranks.insert(match->rank);
    ranks.merge(RanksIn(FieldOf(*match, "ranks")));
  }
  told.ranks.assign(ranks.begin(), ranks.end());
  told.summary = Fill(rule.summary, told.first);
  return told;
}

}  // namespace ncclwatch::analyzer
