// What becomes of a diagnosis: is it a new verdict, a surer one, one to take back, or nothing new. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/model/finding.h"

namespace ncclwatch::watch {

struct PublishedVerdict {
  diagnosis::Kind kind{};
  diagnosis::Certainty certainty{};
  std::vector<int> culprits;
  std::uint64_t communicator = 0;  // 0: none named
  std::uint64_t position = 0;
  std::int64_t began_at_ns = 0;  // CLOCK_REALTIME
};
PublishedVerdict PublishedFrom(const diagnosis::Finding& finding);

enum class Move { kNone, kPublish, kUpdate, kWithdraw };

// What has happened since the standing verdict.
struct Since {
  bool deaths = false;        // somebody died: launchers end the survivors of a fault, and their deaths are no news
  bool culprit_died = false;  // ... a culprit among them
  bool moved_on = false;      // every member has passed the position that the verdict names, or ended the call there
};
Move Decide(const std::optional<PublishedVerdict>& published, const diagnosis::Diagnosis& diagnosis,
            const Since& since);

// "rank 2 arrived after 31.0 s: withdrawn"
std::string WithdrawalLine(const PublishedVerdict& published, std::int64_t now_realtime_ns);

}  // namespace ncclwatch::watch
