// The table of rules, and that the engine takes rules for kinds to come (slow ranks, wrong numbers) as they are.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <set>

#include "core/rules/engine.h"
#include "core/rules/rules.h"
#include "tests/unit/diagnosis/verdicts.h"

namespace ncclwatch::testing {
namespace {

using diagnosis::Certainty;
using diagnosis::Explanation;
using diagnosis::Facts;
using diagnosis::Finding;
using diagnosis::Kind;
using diagnosis::Needs;
using diagnosis::Phase;
using diagnosis::Rule;
using diagnosis::Unless;

// Kinds that the product does not have.
constexpr Kind kSlowRank{40}, kWrongNumbers{41};

std::vector<Finding> Findings(const Job& job, const std::vector<Rule>& rules,
                              const std::vector<Explanation>& explanations = {}) {
  const diagnosis::Snapshot snapshot = job.Snapshot();
  const diagnosis::View view = diagnosis::MakeView(snapshot);
  std::vector<diagnosis::CheckedRule> checked;
  return RunRules(snapshot, view, {rules, explanations}, &checked);
}

std::vector<Rule> WithProduct(const Rule& rule) {
  const auto product = diagnosis::AllRules().rules;
  std::vector<Rule> rules(product.begin(), product.end());
  rules.push_back(rule);
  return rules;
}

// The member that every one of at least three collectives had to wait for, for this long.
std::optional<std::size_t> LastOfAll(const diagnosis::View& view, const diagnosis::CommView& comm) {
  constexpr std::int64_t kSlow_ns = 20'000'000;
  std::set<std::size_t> last;
  std::size_t seen = 0;
  for (const reader::Call* call : comm.members[0].calls) {
    std::vector<std::pair<std::int64_t, std::size_t>> entries;
    for (std::size_t m = 0; m < comm.members.size(); ++m)
      if (const reader::Call* own = comm.members[m].At(call->position))
        entries.emplace_back(view.process(comm.members[m]).At(own->entered_ns), m);
    if (entries.size() < 2 || entries.size() != comm.members.size()) continue;
    std::sort(entries.rbegin(), entries.rend());
    if (entries[0].first - entries[1].first < kSlow_ns) return std::nullopt;
    last.insert(entries[0].second);
    ++seen;
  }
  return seen >= 3 && last.size() == 1 ? std::optional(*last.begin()) : std::nullopt;
}

std::vector<Finding> FindSlowRanks(const Facts& facts) {
  std::vector<Finding> findings;
  for (const diagnosis::CommView& comm : facts.view.comms) {
    const std::optional<std::size_t> slow = LastOfAll(facts.view, comm);
    if (!slow) continue;
    Finding finding;
    finding.kind = kSlowRank;
    finding.certainty = Certainty::kLikely;
    AddCulprits(facts.view, {facts.view.nodes[static_cast<std::size_t>(comm.members[*slow].node)].rank}, &finding);
    finding.communicator = DescribeComm(comm);
    findings.push_back(std::move(finding));
  }
  return findings;
}

constexpr Rule kSlowRanks{.name = "FindSlowRanks",
                          .find = FindSlowRanks,
                          .phase = Phase::kAfterwards,
                          .makes = {kSlowRank},
                          .unless = Unless::kAnythingFound};

Job WithSlowRank(double late_s) {
  Job job(4);
  for (int i = 0; i < 5; ++i) {
    std::vector<std::uint64_t> slots;
    for (const int rank : {0, 1, 3}) slots.push_back(job.Enter(rank, kWorld, AllReduce()));
    job.Pass(late_s);
    slots.push_back(job.Enter(2, kWorld, AllReduce()));
    for (std::size_t k = 0; k < slots.size(); ++k) job.Return(k == 3 ? 2 : k == 2 ? 3 : static_cast<int>(k), slots[k]);
    job.Finish(Range(0, 4), kWorld);
    job.Pass(0.1);
  }
  return job;
}

TEST(Rules, ASlowRankIsARowAndAFunction) {
  const std::vector<Finding> findings = Findings(WithSlowRank(0.05), WithProduct(kSlowRanks));
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].kind, kSlowRank);
  EXPECT_EQ(findings[0].culprits, (std::vector<int>{2}));
  EXPECT_TRUE(Findings(WithSlowRank(0.0), WithProduct(kSlowRanks)).empty());
}

TEST(Rules, WhatHasStoppedGoesBeforeWhatIsSlow) {
  Job job = WithSlowRank(0.05);
  job.Call({0, 1, 3}, kWorld, AllReduce());
  job.Die(2, Job::Signal(SIGKILL));
  const std::vector<Finding> findings = Findings(job, WithProduct(kSlowRanks));
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].kind, Kind::kDeadRank);
}

std::vector<Finding> One(Kind kind, int rank, std::int64_t began_at_ns = 0) {
  Finding finding;
  finding.kind = kind;
  finding.certainty = Certainty::kCertain;
  finding.culprits = {rank};
  finding.began_at_ns = began_at_ns;
  return {finding};
}

// A rank whose sums differ from the others' before it dies: the death follows from it.
TEST(Rules, WrongNumbersGoBeforeTheDeathThatTheyCause) {
  constexpr auto find = [](const Facts&) { return One(kWrongNumbers, 1, 1); };
  Job job = Running(4);
  job.Call({0, 1, 3}, kWorld, AllReduce());
  job.Die(2, Job::Signal(SIGKILL));
  const std::vector<Finding> findings = Findings(
      job, WithProduct({.name = "numbers", .find = find, .phase = Phase::kContradiction, .makes = {kWrongNumbers}}));
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[0].kind, kWrongNumbers);
  EXPECT_EQ(findings[1].kind, Kind::kDeadRank);
  EXPECT_EQ(findings[1].caused_by, 0u);
}

// One that is fatal goes before the death of its culprit whenever it was seen; one that is not follows from the death.
TEST(Rules, AFatalFindingGoesBeforeTheDeathOfItsCulprit) {
  constexpr auto find = [](const Facts&) { return One(kWrongNumbers, 2, INT64_MAX); };
  Rule rule{.name = "numbers", .find = find, .phase = Phase::kMisuse, .makes = {kWrongNumbers}};
  Job job = Running(4);
  job.Call({0, 1, 3}, kWorld, AllReduce());
  job.Die(2, Job::Signal(SIGKILL));
  std::vector<Finding> findings = Findings(job, WithProduct(rule));
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[0].kind, Kind::kDeadRank);
  EXPECT_EQ(findings[1].caused_by, 0u);
  rule.fatal = {kWrongNumbers};
  findings = Findings(job, WithProduct(rule));
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[0].kind, kWrongNumbers);
  EXPECT_EQ(findings[1].caused_by, 0u);
}

constexpr auto kNothingFound = [](const Facts&) { return std::vector<Finding>(); };
constexpr auto kFirst = [](const Facts&) { return One(kSlowRank, 0); };
constexpr auto kSecond = [](const Facts&) { return One(kWrongNumbers, 1); };

std::vector<Kind> Kinds(const std::vector<Finding>& findings) {
  std::vector<Kind> kinds;
  for (const Finding& finding : findings) kinds.push_back(finding.kind);
  return kinds;
}

TEST(Rules, WhatMakesARuleSuperfluous) {
  const Job job = Running(2);
  const Rule nothing{.name = "nothing", .find = kNothingFound, .phase = Phase::kStandstill};
  const Rule first{.name = "first", .find = kFirst, .phase = Phase::kStandstill, .makes = {kSlowRank}};
  Rule second{.name = "second", .find = kSecond, .phase = Phase::kStandstill, .makes = {kWrongNumbers}};
  EXPECT_EQ(Kinds(Findings(job, {first, second})), (std::vector<Kind>{kSlowRank, kWrongNumbers}));
  second.unless = Unless::kRowAboveFound;
  EXPECT_EQ(Kinds(Findings(job, {first, second})), (std::vector<Kind>{kSlowRank}));
  EXPECT_EQ(Kinds(Findings(job, {first, nothing, second})), (std::vector<Kind>{kSlowRank, kWrongNumbers}));
  second.unless = Unless::kPhaseFound;
  EXPECT_EQ(Kinds(Findings(job, {first, nothing, second})), (std::vector<Kind>{kSlowRank}));
  second.phase = Phase::kAfterwards;
  EXPECT_EQ(Kinds(Findings(job, {first, second})), (std::vector<Kind>{kSlowRank, kWrongNumbers}));
  second.unless = Unless::kAnythingFound;
  EXPECT_EQ(Kinds(Findings(job, {first, second})), (std::vector<Kind>{kSlowRank}));
  EXPECT_EQ(Kinds(Findings(job, {nothing, second})), (std::vector<Kind>{kWrongNumbers}));
}

TEST(Rules, AreNotAskedForWhatIsNotThere) {
  const Job job = Running(2);
  for (const Needs needs : {Needs::kMpi, Needs::kAllFinalized})
    EXPECT_TRUE(
        Findings(job,
                 {{.name = "first", .find = kFirst, .phase = Phase::kAfterwards, .makes = {kSlowRank}, .needs = needs}})
            .empty());
}

TEST(Rules, AnExplanationReplacesAStandstill) {
  const Explanation explanation{
      .name = "explanation",
      .explain = [](const Facts&, std::vector<Finding>* found) { found->front().kind = kWrongNumbers; },
      .explains = {kSlowRank},
      .makes = {kWrongNumbers}};
  const Rule first{.name = "first", .find = kFirst, .phase = Phase::kStandstill, .makes = {kSlowRank}};
  EXPECT_EQ(Kinds(Findings(Running(2), {first}, {explanation})), (std::vector<Kind>{kWrongNumbers}));
  // Nothing to explain: it is not asked.
  EXPECT_TRUE(Findings(Running(2), {}, {explanation}).empty());
}

TEST(Rules, AreBounded) {
  const Rule many{.name = "many",
                  .find = [](const Facts&) { return std::vector<Finding>(100, One(kSlowRank, 0).front()); },
                  .phase = Phase::kAfterwards,
                  .makes = {kSlowRank}};
  EXPECT_EQ(Findings(Running(2), {many}).size(), 16u);
}

TEST(Rules, EveryKindHasARow) {
  const diagnosis::RuleTable& table = diagnosis::AllRules();
  for (int i = 0; Name(static_cast<Kind>(i)) != "?"; ++i) {
    const Kind kind{i};
    if (diagnosis::IsSlow(kind)) continue;
    const bool found =
        std::any_of(table.rules.begin(), table.rules.end(), [&](const Rule& rule) { return rule.makes.Has(kind); });
    const bool explains = std::any_of(table.explanations.begin(), table.explanations.end(),
                                      [&](const Explanation& one) { return one.makes.Has(kind); });
    EXPECT_TRUE(found || explains) << Name(kind);
    for (const Rule& rule : table.rules) {
      EXPECT_TRUE(rule.makes.Has(kind) || !rule.fatal.Has(kind)) << rule.name << ": " << Name(kind);
    }
  }
}

}  // namespace
}  // namespace ncclwatch::testing
