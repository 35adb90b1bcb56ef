#include "watchdog/watch/cluster/token_search.h"

#include <atomic>

#include "watchdog/act/thread.h"

namespace ncclwatch::watch {

struct TokenSearch::State {
  std::atomic<bool> done{false};
  FoundTokens found;  // constant once done, which is stored with release
};

TokenSearch::TokenSearch(const TokenWish& wish) : state_(std::make_shared<State>()) {
  const auto find = [state = state_, wish] {
    state->found = FindTokens(wish);
    state->done.store(true, std::memory_order_release);
  };
  const bool files = !wish.file.empty() || (wish.secret.empty() && !(wish.out.empty() && wish.state.empty()));
  if (!files) find();
  if (!files || act::StartThread("ncclwatch-token", find)) return;
  if (wish.GivenByUser()) state_->found.refused = "no thread could be made that reads NCCLWATCH_TOKEN_FILE";
  state_->done.store(true, std::memory_order_release);
}

std::optional<FoundTokens> TokenSearch::Found() const {
  if (!state_->done.load(std::memory_order_acquire)) return std::nullopt;
  return state_->found;
}

}  // namespace ncclwatch::watch
