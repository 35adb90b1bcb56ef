#include "analyzer/triage/culprit.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "analyzer/triage/waits.h"

namespace ncclwatch::analyzer {
namespace {

std::vector<int> RanksThatWaited(const std::vector<TriageFinding>& echoes) {
  std::set<int> waited;
  for (const TriageFinding& echo : echoes)
    if (echo.rule->category == "timeout") waited.insert(echo.ranks.begin(), echo.ranks.end());
  return {waited.begin(), waited.end()};
}

// "Rank 3, node n1, ...": the line itself names one, and it is not about somebody else's rank.
int RankInText(const TriageFinding& cause) {
  static const RE2 pattern(R"((?i)\brank[ =:]{0,2}(\d+)\b)");
  const std::string& category = cause.rule->category;
  if (category == "network" || category == "nccl" || category == "timeout" || category == "rendezvous") return -1;
  int rank = -1;
  return RE2::PartialMatch(cause.first.text, pattern, &rank) ? rank : -1;
}

// In a file of many processes: whom its launcher says next to have ended.
int RankSaidBelow(const Circumstances& known, const Match& cause) {
  constexpr std::uint64_t kBelow = 60;  // lines
  for (const ScannedFile& file : known.files)
    for (const Match& match : file.matches)
      if (file.file.path == cause.file && match.line > cause.line && match.line <= cause.line + kBelow &&
          match.rank >= 0 && known.rules[match.rule].role == Role::kConfirmation &&
          known.rules[match.rule].end == "exit")
        return match.rank;
  return -1;
}

}  // namespace

void NameRank(const Circumstances& known, TriageFinding* cause) {
  const RankEnd* const first = known.evidence.first();
  if (const int named = RankInText(*cause); named >= 0) {
    cause->ranks = {named};
  } else if (first && first->rank >= 0 && first->file == cause->first.file && cause->rule->end == "signal") {
    cause->ranks = {first->rank};
  } else if (const auto missing = MissingFrom(known.files, RanksThatWaited(known.echoes));
             missing.size() == 1 && (cause->first.exception || cause->rule->kernel)) {
    cause->ranks = missing;
  } else if (const int below = RankSaidBelow(known, cause->first);
             below >= 0 && cause->lines == 1 && cause->rule->category != "hardware") {
    // A machine's fault need not be that of the process that ended next.
    cause->ranks = {below};
  }
}

void NameAbsent(const Circumstances& known, const std::vector<int>& silent, TriageFinding* wait) {
  std::vector<int> absent = RanksBelow(known.files, wait->first);
  if (absent.empty()) absent = LaggingRanks(known.rules, known.files);
  if (absent.empty()) absent = MissingFrom(known.files, RanksThatWaited(known.echoes));
  if (absent.empty()) absent = silent;
  if (absent.empty()) return;
  wait->ranks = std::move(absent);
  wait->summary += " The ranks named here did not come.";
}

std::optional<TriageFinding> OddCallFinding(const Circumstances& known) {
  const auto odd = OddCallOf(known.rules, known.files);
  const auto rule = std::find_if(known.rules.begin(), known.rules.end(),
                                 [](const Rule& each) { return each.id == "nccl.another_collective"; });
  if (!odd || rule == known.rules.end()) return std::nullopt;
  TriageFinding told = Tell(*rule, {odd->first});
  told.ranks = odd->ranks;
  told.summary = fmt::format("Another collective than on the other ranks: {} instead of {}.", odd->theirs, odd->others);
  return told;
}

}  // namespace ncclwatch::analyzer
