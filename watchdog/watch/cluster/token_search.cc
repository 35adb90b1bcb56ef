#include "watchdog/watch/cluster/token_search.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>

#include "watchdog/act/thread.h"
#include "watchdog/exchange/rendezvous/token.h"
#include "watchdog/exchange/rendezvous/token_file.h"

namespace ncclwatch::watch {

FoundTokens FindTokens(const TokenWish& wish) {
  FoundTokens found;
  if (!wish.file.empty()) {
    const exchange::Secret secret = exchange::ReadSecret(wish.file);
    if (secret.text.empty())
      found.refused = fmt::format("NCCLWATCH_TOKEN_FILE={} is not taken: {}", wish.file, secret.why);
    else
      found.tokens.push_back(exchange::TokenOfSecret(secret.text, wish.job_name));
  } else if (!wish.secret.empty()) {
    found.tokens.push_back(exchange::TokenOfSecret(wish.secret, wish.job_name));
  }
  if (wish.GivenByUser()) {
    found.everywhere = true;
    return found;
  }
  for (const std::string* const place : {&wish.out, &wish.state}) {
    if (place->empty() || !found.tokens.empty()) continue;
    if (place == &wish.state && access(wish.base.c_str(), W_OK | X_OK) != 0) continue;
    const exchange::Secret secret = exchange::SharedSecret(*place, wish.name);
    if (secret.text.empty()) continue;
    found.tokens.push_back(exchange::TokenOfSecret(secret.text, wish.name));
    found.directory = *place;
    found.everywhere = place == &wish.out || exchange::OnNetworkFileSystem(*place);
  }
  return found;
}

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
