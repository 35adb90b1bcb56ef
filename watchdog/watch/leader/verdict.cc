#include "watchdog/watch/leader/verdict.h"
#include "ncclwatch/nanoseconds.h"

#include <fmt/format.h>

namespace ncclwatch::watch {
namespace {

using diagnosis::Certainty;
using diagnosis::Kind;

// A call that was made cannot be unmade; that its records leave the ring does not heal it. Only who is wrong may be
// less than certain.
bool IsForGood(const PublishedVerdict& published) {
  return published.certainty >= Certainty::kLikely &&
         (published.kind == Kind::kOrderMismatch || published.kind == Kind::kArgumentMismatch ||
          published.kind == Kind::kInvalidArgument || published.kind == Kind::kRequestError);
}

std::string Ranks(const std::vector<int>& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

}  // namespace

PublishedVerdict PublishedFrom(const diagnosis::Finding& finding) {
  return {finding.kind,
          finding.certainty,
          finding.culprits,
          finding.communicator ? finding.communicator->id : 0,
          finding.position.value_or(0),
          finding.began_at_ns};
}

Move Decide(const std::optional<PublishedVerdict>& published, const diagnosis::Diagnosis& diagnosis,
            const Since& since) {
  if (!published) return diagnosis.harmless() ? Move::kNone : Move::kPublish;
  if (diagnosis.harmless()) {
    if (IsForGood(*published)) return Move::kNone;
    return !since.deaths || since.moved_on ? Move::kWithdraw : Move::kNone;
  }
  const PublishedVerdict next = PublishedFrom(diagnosis.findings.front());
  const bool same = next.kind == published->kind && next.culprits == published->culprits &&
                    next.communicator == published->communicator;
  if (same) return next.certainty > published->certainty ? Move::kUpdate : Move::kNone;
  if (published->certainty == Certainty::kCertain && !(since.moved_on && !IsForGood(*published))) return Move::kNone;
  if (since.deaths && !since.culprit_died && !since.moved_on) return Move::kNone;
  // The stall came first: whoever killed the culprit afterwards ended a job that stood already.
  if (published->certainty >= Certainty::kLikely && since.culprit_died && !since.moved_on) return Move::kNone;
  return next.certainty >= published->certainty || since.moved_on ? Move::kUpdate : Move::kNone;
}

std::string WithdrawalLine(const PublishedVerdict& published, std::int64_t now_realtime_ns) {
  const auto text = [&]() -> std::string {
    if (published.culprits.empty()) return "it moved on";
    const std::string ranks = Ranks(published.culprits);
    switch (published.kind) {
      case Kind::kMissingParticipant: return ranks + " arrived";
      case Kind::kInitializationHang: return ranks + " joined";
      case Kind::kFrozenProcess: return ranks + (published.culprits.size() == 1 ? " runs again" : " run again");
      case Kind::kDeadRank:
      case Kind::kEarlyExit: return "nobody waits for " + ranks + " any more";
      default: return ranks + " moved on";
    }
  };
  const double after_s = InSeconds(now_realtime_ns - published.began_at_ns);
  return fmt::format("{} after {:.1f} s: withdrawn", text(), after_s);
}

}  // namespace ncclwatch::watch
