#include "watchdog/watch/leader/verdict.h"

#include <gtest/gtest.h>

namespace ncclwatch::watch {
namespace {

using diagnosis::Certainty;
using diagnosis::Diagnosis;
using diagnosis::Kind;

Diagnosis With(Kind kind, Certainty certainty, std::vector<int> culprits, std::uint64_t communicator = 1) {
  Diagnosis diagnosis;
  diagnosis::Finding finding;
  finding.kind = kind;
  finding.certainty = certainty;
  finding.culprits = std::move(culprits);
  finding.communicator.emplace().id = communicator;
  finding.position = 5;
  finding.began_at_ns = 1'000'000'000;
  diagnosis.findings.push_back(finding);
  return diagnosis;
}
std::optional<PublishedVerdict> After(const Diagnosis& diagnosis) { return PublishedFrom(diagnosis.findings.front()); }

const Diagnosis kHealthy;

TEST(Verdict, IsPublishedOnce) {
  const Diagnosis missing = With(Kind::kMissingParticipant, Certainty::kSuspected, {2});
  EXPECT_EQ(Decide(std::nullopt, kHealthy, {}), Move::kNone);
  EXPECT_EQ(Decide(std::nullopt, missing, {}), Move::kPublish);
  EXPECT_EQ(Decide(After(missing), missing, {}), Move::kNone);
}

TEST(Verdict, IsUpdatedWhenSurerAndNeverWhenLessSo) {
  const Diagnosis suspected = With(Kind::kMissingParticipant, Certainty::kSuspected, {2});
  const Diagnosis likely = With(Kind::kMissingParticipant, Certainty::kLikely, {2});
  EXPECT_EQ(Decide(After(suspected), likely, {}), Move::kUpdate);
  EXPECT_EQ(Decide(After(likely), suspected, {}), Move::kNone);
}

TEST(Verdict, IsWithdrawnWhenItMovesOnButACallCannotBeUnmade) {
  EXPECT_EQ(Decide(After(With(Kind::kMissingParticipant, Certainty::kLikely, {2})), kHealthy, {}), Move::kWithdraw);
  EXPECT_EQ(Decide(After(With(Kind::kDeadRank, Certainty::kCertain, {2})), kHealthy, {}), Move::kWithdraw);
  EXPECT_EQ(Decide(After(With(Kind::kArgumentMismatch, Certainty::kCertain, {2})), kHealthy, {}), Move::kNone);
  // Likely is who made the wrong one, or where the ranks parted first: that the calls differ is a fact.
  EXPECT_EQ(Decide(After(With(Kind::kArgumentMismatch, Certainty::kLikely, {2})), kHealthy, {}), Move::kNone);
  EXPECT_EQ(Decide(After(With(Kind::kArgumentMismatch, Certainty::kSuspected, {2})), kHealthy, {}), Move::kWithdraw);
}

TEST(Verdict, StandsWhenTheLauncherEndsTheSurvivors) {
  const Since deaths{true, false, false};
  const Diagnosis missing = With(Kind::kMissingParticipant, Certainty::kLikely, {2});
  EXPECT_EQ(Decide(After(missing), kHealthy, deaths), Move::kNone);
  EXPECT_EQ(Decide(After(missing), With(Kind::kDeadRank, Certainty::kCertain, {0}), deaths), Move::kNone);
  EXPECT_EQ(Decide(After(With(Kind::kDeadRank, Certainty::kCertain, {1})),
                   With(Kind::kDeadRank, Certainty::kCertain, {0}), deaths),
            Move::kNone);
}

TEST(Verdict, TheDeathOfASuspectIsNews) {
  const Since died{true, true, false};
  EXPECT_EQ(Decide(After(With(Kind::kMissingParticipant, Certainty::kSuspected, {2})),
                   With(Kind::kDeadRank, Certainty::kCertain, {2}), died),
            Move::kUpdate);
}

TEST(Verdict, ALikelyStallCameBeforeTheDeathOfItsCulprit) {
  const Since died{true, true, false};
  const Diagnosis frozen = With(Kind::kFrozenProcess, Certainty::kLikely, {2});
  const Diagnosis missing = With(Kind::kMissingParticipant, Certainty::kLikely, {2});
  EXPECT_EQ(Decide(After(frozen), With(Kind::kDeadRank, Certainty::kCertain, {2}), died), Move::kNone);
  EXPECT_EQ(Decide(After(missing), With(Kind::kDeadRank, Certainty::kCertain, {2}), died), Move::kNone);
}

TEST(Verdict, AfterItMovedOnAnotherOneMayFollow) {
  const Since moved{true, false, true};
  const Diagnosis missing = With(Kind::kMissingParticipant, Certainty::kLikely, {2});
  EXPECT_EQ(Decide(After(missing), kHealthy, moved), Move::kWithdraw);
  EXPECT_EQ(Decide(After(missing), With(Kind::kMissingParticipant, Certainty::kSuspected, {1}), moved), Move::kUpdate);
}

TEST(Verdict, WithdrawalsSayWhoAndAfterHowLong) {
  EXPECT_EQ(WithdrawalLine(*After(With(Kind::kMissingParticipant, Certainty::kLikely, {2})), 32'000'000'000),
            "rank 2 arrived after 31.0 s: withdrawn");
  EXPECT_EQ(WithdrawalLine(*After(With(Kind::kFrozenProcess, Certainty::kLikely, {1, 3})), 2'500'000'000),
            "ranks 1, 3 run again after 1.5 s: withdrawn");
}

}  // namespace
}  // namespace ncclwatch::watch
