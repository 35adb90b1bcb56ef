// When a leader's exchange is opened: as soon as the tokens are known, and where the nodes meet.
#include <algorithm>
#include <utility>

#include "ncclwatch/nanoseconds.h"
#include "watchdog/act/thread.h"
#include "watchdog/exchange/rendezvous/seen_unique_ids.h"
#include "watchdog/exchange/rendezvous/token_file.h"
#include "watchdog/log/log.h"
#include "watchdog/watch/base/clock.h"
#include "watchdog/watch/cluster/coordinator.h"

namespace ncclwatch::watch {
namespace {

// For what is better than the token that everybody can guess.
constexpr std::int64_t kAwaitIds_ns = 2'000 * kMs, kAwaitFile_ns = 3'000 * kMs, kGiveUpFile_ns = 10'000 * kMs;
constexpr std::int64_t kKeepSecretEvery_ns = 3'600'000 * kMs;

}  // namespace

// Once for a node, whoever leads it.
void ClusterCoordinator::SayAlone(const std::string& why) {
  if (lease_->words().alone.exchange(1, std::memory_order_acq_rel) != 0) return;
  log::Warn("the other nodes are not looked for: {}; the ranks of this node are judged alone", why);
}

// A file system that does not answer is not waited for, unless the user has named the secret there.
bool ClusterCoordinator::KnowsTokens(FoundTokens* found) const {
  const std::int64_t waited_ns = Monotonic() - planned_ns_;
  if (std::optional<FoundTokens> known = search_->Found())
    *found = *std::move(known);
  else if (waited_ns < (plan_->request.GivenByUser() ? kGiveUpFile_ns : kAwaitFile_ns))
    return false;
  else if (plan_->request.GivenByUser())
    found->refused = "NCCLWATCH_TOKEN_FILE cannot be read in time";
  return true;
}

// The others may have another secret in their files, or none: what the job hands round in an id all have.
bool ClusterCoordinator::AwaitsIds(const FoundTokens& found) const {
  const bool useful = !found.everywhere && plan_->setup.address.kind == exchange::Address::Kind::kTcp;
  return useful && exchange::NotedUniqueIds().empty() && Monotonic() - planned_ns_ < kAwaitIds_ns;
}

// As soon as it is known where the nodes meet, and by what they know one another.
void ClusterCoordinator::OpenExchange() {
  if (!plan_) return;
  // A successor that judged its node alone in the meantime would say what the others say a moment later.
  role_ = Role::kLooking;
  FoundTokens found;
  if (!KnowsTokens(&found) || AwaitsIds(found)) return;
  exchange::Setup& setup = plan_->setup;
  std::string why = found.refused;
  if (setup.address.kind == exchange::Address::Kind::kNone && why.empty()) {
    if (exchange::NotedUniqueIds().empty()) {
      role_ = Role::kAlone;  // there may never be one
      return;
    }
    AskIds(&setup);
    if (setup.address.kind == exchange::Address::Kind::kNone)
      why = "nothing tells where they meet (NCCLWATCH_EXCHANGE would)";
  }
  if (why.empty()) {
    PutTokens(*plan_, found, environment_, &setup);
    own_ = setup.self.node;
    place_ = setup.address.ToText() + (setup.address.source.empty() ? "" : " from " + setup.address.source);
    only_guessable_ = std::all_of(setup.tokens.begin(), setup.tokens.end(),
                                  [](const exchange::Token& token) { return token.guessable; });
    log::Debug("opens the exchange between nodes at {}", place_);
    exchange_ = exchange::Open(setup, &why);
  }
  secret_directory_ = found.directory;
  secret_name_ = plan_->request.name;
  secret_kept_ns_ = Monotonic();
  if (!exchange_) {
    role_ = Role::kAlone;
    SayAlone(why);
  }
  plan_.reset();
}

// A leader that follows in a week shall find what the others still hold.
void ClusterCoordinator::KeepSecret(std::int64_t now_ns) {
  if (secret_directory_.empty() || now_ns - secret_kept_ns_ < kKeepSecretEvery_ns) return;
  secret_kept_ns_ = now_ns;
  act::StartThread("ncclwatch-token",
                   [directory = secret_directory_, name = secret_name_] { exchange::KeepSecret(directory, name); });
}

}  // namespace ncclwatch::watch
