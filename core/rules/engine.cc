#include "core/rules/engine.h"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <utility>

#include "core/view/as_of.h"
#include "core/view/ends.h"
#include "core/view/mpi_ended.h"
#include "core/view/mpi_traits.h"

namespace ncclwatch::diagnosis {
namespace {

constexpr std::size_t kMaxFindings = 16;  // one fault in hundreds of communicators is still one story

using Findings = std::vector<Finding>;

void Append(Findings more, Findings* findings) {
  findings->insert(findings->end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

bool SharesCulprit(const Finding& a, const Finding& b) {
  return std::any_of(a.culprits.begin(), a.culprits.end(),
                     [&](int rank) { return std::binary_search(b.culprits.begin(), b.culprits.end(), rank); });
}

// A rank that does nothing and then dies was dying. One that is in a call was ended because that does not come to its
// end.
bool WasDying(const View& view, const Finding& standstill, const Finding& death) {
  if (standstill.certainty == Certainty::kCertain || !SharesCulprit(standstill, death)) return false;
  return std::none_of(death.culprits.begin(), death.culprits.end(), [&](int rank) {
    const auto node = view.node_of_rank.find(rank);
    return node != view.node_of_rank.end() && IsInACall(view, view.nodes[node->second]);
  });
}

// Proofs first, then by when they began.
void OrderByTime(Findings* findings) {
  std::stable_sort(findings->begin(), findings->end(), [](const Finding& a, const Finding& b) {
    if ((a.certainty == Certainty::kCertain) != (b.certainty == Certainty::kCertain)) {
      return a.certainty == Certainty::kCertain;
    }
    return a.began_at_ns < b.began_at_ns;
  });
}

void FollowFromFirst(Findings* findings) {
  for (Finding& finding : *findings) finding.caused_by = 0;
}

// The rules of one table, on a job as it is at one instant.
class Rules {
 public:
  Rules(const RuleTable& table, const View& view, std::vector<CheckedRule>* checked)
      : table_(table), view_(view), checked_(*checked) {
    if (!checked_.empty()) return;
    for (const Rule& rule : table.rules) AddRow(rule.name, rule.makes, true, kNotAsked);
    for (const Explanation& explanation : table.explanations)
      AddRow(explanation.name, explanation.makes, false, kNothingToExplain);
  }

  // Waits of ranks that a mismatch explains are left out.
  void MakeGraph() {
    std::vector<Explained> explained;
    for (const Mismatch& mismatch : mismatches_) explained.push_back({mismatch.comm, mismatch.difference.position});
    graph_ = MakeWaits(view_, explained);
  }

  // Adds to the findings what the rules of the phase find.
  void Run(Phase phase, Findings* findings) {
    const std::size_t before = findings->size();
    bool above = false;
    for (const Rule& rule : table_.rules) {
      if (rule.phase != phase) continue;
      CheckedRule& checked = checked_[static_cast<std::size_t>(&rule - table_.rules.data())];
      if (rule.unless != Unless::kRowAboveFound) above = false;  // the first of a chain
      if (!Has(rule.needs)) {
        if (!checked.ran) NotApplicable(rule.needs, &checked);
        continue;
      }
      if (above || (rule.unless == Unless::kPhaseFound && findings->size() > before) ||
          (rule.unless == Unless::kAnythingFound && !findings->empty()))
        continue;
      Findings found = rule.find({view_, graph_, mismatches_, *findings});
      above = !found.empty();
      Ran(above, &checked);
      assert(std::all_of(found.begin(), found.end(), [&](const Finding& made) { return rule.makes.Has(made.kind); }));
      Append(std::move(found), findings);
    }
  }

  Findings Run(Phase phase) {
    Findings findings;
    Run(phase, &findings);
    return findings;
  }

  Findings Standstills() {
    Findings findings = Run(Phase::kStandstill);
    for (const Explanation& explanation : table_.explanations) {
      const bool explains = std::any_of(findings.begin(), findings.end(),
                                        [&](const Finding& one) { return explanation.explains.Has(one.kind); });
      if (!explains) continue;
      const auto made = [&] {
        return std::count_if(findings.begin(), findings.end(),
                             [&](const Finding& one) { return explanation.makes.Has(one.kind); });
      };
      const auto before = made();
      explanation.explain({view_, graph_, mismatches_, findings}, &findings);
      const auto row = static_cast<std::size_t>(&explanation - table_.explanations.data());
      Ran(made() > before, &checked_[table_.rules.size() + row]);
    }
    return findings;
  }

 private:
  static constexpr char kNotAsked[] = "another finding makes it superfluous";
  static constexpr char kNothingToExplain[] = "there is no finding that it could explain";

  void AddRow(std::string_view name, const KindSet& makes, bool applies, const char* why) {
    CheckedRule row{.rule = RowName(name), .applies = applies, .why = why};
    for (int i = 0; Name(static_cast<Kind>(i)) != "?"; ++i)
      if (makes.Has(static_cast<Kind>(i))) row.makes.push_back(static_cast<Kind>(i));
    checked_.push_back(std::move(row));
  }

  // "message_mismatches" of FindMessageMismatches.
  static std::string RowName(std::string_view function) {
    constexpr std::string_view kFind = "Find";
    if (function.starts_with(kFind)) function.remove_prefix(kFind.size());
    std::string name;
    for (const char c : function) {
      const bool upper = c >= 'A' && c <= 'Z';
      if (upper && !name.empty()) name += '_';
      name += upper ? static_cast<char>(c - 'A' + 'a') : c;
    }
    return name;
  }

  static void Ran(bool found, CheckedRule* checked) {
    checked->ran = true;
    if (found || checked->result != CheckedRule::Result::kFound)
      checked->result = found ? CheckedRule::Result::kFound : CheckedRule::Result::kNothing;
    checked->why.clear();
  }

  static void NotApplicable(Needs needs, CheckedRule* checked) {
    checked->applies = needs != Needs::kMpi;
    checked->why = needs == Needs::kMpi ? "no rank uses MPI" : "not all ranks have called MPI_Finalize";
  }

  bool Has(Needs needs) const {
    switch (needs) {
      case Needs::kNothing: return true;
      case Needs::kMpi:
        return std::any_of(view_.comms.begin(), view_.comms.end(),
                           [](const CommView& comm) { return SpeaksMpi(comm); });
      case Needs::kAllFinalized: return AllFinalized(view_);
    }
    return true;
  }

  const RuleTable& table_;
  const View& view_;
  std::vector<CheckedRule>& checked_;  // rules, then explanations
  WaitGraph graph_;
  std::vector<Mismatch> mismatches_;
};

// A standstill that had lasted too long already when the job began to end is what ended it.
Findings StandstillsBefore(const Snapshot& snapshot, std::int64_t end_ns, const Findings& deaths,
                           const RuleTable& table, std::vector<CheckedRule>* checked) {
  const Snapshot past = AsOf(snapshot, end_ns - 1);
  const View view = MakeView(past);
  Rules rules(table, view, checked);
  rules.MakeGraph();
  Findings findings = rules.Standstills();
  std::erase_if(findings,
                [&](const Finding& finding) { return !deaths.empty() && WasDying(view, finding, deaths.front()); });
  return findings;
}

Findings WhatCameBefore(const Snapshot& snapshot, const View& view, const RuleTable& table, const Findings& deaths,
                        Rules* rules, std::vector<CheckedRule>* checked) {
  std::optional<std::int64_t> end = FirstEnd(view);
  if (!deaths.empty()) {
    const std::int64_t died = deaths.front().began_at_ns - view.realtime_minus_monotonic_ns;
    end = std::min(end.value_or(died), died);
  }
  Findings before;
  if (end) before = StandstillsBefore(snapshot, *end, deaths, table, checked);
  if (!before.empty() || deaths.empty()) return before;
  Findings known = deaths;
  rules->Run(Phase::kBeforeDeath, &known);
  known.erase(known.begin(), known.begin() + std::ssize(deaths));
  return known;
}

bool IsFatal(const RuleTable& table, Kind kind) {
  return std::any_of(table.rules.begin(), table.rules.end(), [&](const Rule& rule) { return rule.fatal.Has(kind); });
}

// The instant of a death is the last sign of life; what the dead one did wrong itself came before it all the same.
bool PutOwnDoingFirst(const RuleTable& table, const Finding& death, Findings* findings) {
  const auto own = std::find_if(findings->begin(), findings->end(), [&](const Finding& finding) {
    return IsFatal(table, finding.kind) && SharesCulprit(finding, death);
  });
  if (own == findings->end()) return false;
  std::rotate(findings->begin(), own, own + 1);
  return true;
}

// The deaths among what else was found: behind it as its consequences, or before it as its cause.
void AddDeaths(const RuleTable& table, Findings deaths, Findings* findings) {
  const bool consequence = !findings->empty() && (findings->front().began_at_ns <= deaths.front().began_at_ns ||
                                                  PutOwnDoingFirst(table, deaths.front(), findings));
  FollowFromFirst(consequence ? &deaths : findings);
  if (!consequence) std::swap(deaths, *findings);
  Append(std::move(deaths), findings);
}

}  // namespace

std::vector<Finding> RunRules(const Snapshot& snapshot, const View& view, const RuleTable& table,
                              std::vector<CheckedRule>* checked) {
  Rules rules(table, view, checked);
  Findings findings = rules.Run(Phase::kComparison);
  rules.MakeGraph();
  rules.Run(Phase::kContradiction, &findings);
  const bool contradicted = !findings.empty();
  Findings misuses = findings;  // which the rules are to know
  rules.Run(Phase::kMisuse, &misuses);
  misuses.erase(misuses.begin(), misuses.begin() + std::ssize(findings));
  Findings deaths = rules.Run(Phase::kDeath);
  Findings before;
  if (!contradicted) before = WhatCameBefore(snapshot, view, table, deaths, &rules, checked);
  if (!misuses.empty()) {
    Append(std::move(misuses), &findings);
    OrderByTime(&findings);
  }
  const bool stood_still = !before.empty();
  Append(std::move(before), &findings);
  if (!deaths.empty()) {
    AddDeaths(table, std::move(deaths), &findings);
  } else {
    if (!stood_still) Append(rules.Standstills(), &findings);
    OrderByTime(&findings);
    // The later of two differences that name the same rank follows from the first: it runs one call behind.
    for (std::size_t i = 1; i < findings.size(); ++i)
      if (SharesCulprit(findings[0], findings[i])) findings[i].caused_by = 0;
  }
  rules.Run(Phase::kAfterwards, &findings);
  if (findings.size() > kMaxFindings) findings.resize(kMaxFindings);
  return findings;
}

}  // namespace ncclwatch::diagnosis
