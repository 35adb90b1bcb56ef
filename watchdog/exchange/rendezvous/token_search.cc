#include "watchdog/exchange/rendezvous/token_search.h"

#include <fmt/format.h>
#include <unistd.h>

#include "watchdog/exchange/rendezvous/token.h"
#include "watchdog/exchange/rendezvous/token_file.h"

namespace ncclwatch::exchange {

void PutPlaces(const std::string& out, const rundir::Lookup& lookup, TokenWish* wish) {
  const auto absolute = [&](std::string_view name) {
    const std::string_view path = lookup(name).value_or("");
    return path.starts_with('/') ? std::string(path) : std::string();
  };
  if (!out.empty()) wish->out = out + "/.ncclwatch";
  if (const std::string state = absolute("XDG_STATE_HOME"); !state.empty()) {
    wish->base = state;
    wish->state = state + "/ncclwatch";
  } else if (const std::string home = absolute("HOME"); !home.empty()) {
    wish->base = home;
    wish->state = home + "/.ncclwatch";
  }
}

FoundTokens FindTokens(const TokenWish& wish) {
  FoundTokens found;
  if (!wish.file.empty()) {
    const Secret secret = ReadSecret(wish.file);
    if (secret.text.empty())
      found.refused = fmt::format("NCCLWATCH_TOKEN_FILE={} is not taken: {}", wish.file, secret.why);
    else
      found.tokens.push_back(TokenOfSecret(secret.text, wish.job_name));
  } else if (!wish.secret.empty()) {
    found.tokens.push_back(TokenOfSecret(wish.secret, wish.job_name));
  }
  if (wish.GivenByUser()) {
    found.everywhere = true;
    return found;
  }
  for (const std::string* const place : {&wish.out, &wish.state}) {
    if (place->empty() || !found.tokens.empty()) continue;
    if (place == &wish.state && access(wish.base.c_str(), W_OK | X_OK) != 0) continue;
    const Secret secret = SharedSecret(*place, wish.name);
    if (secret.text.empty()) continue;
    found.tokens.push_back(TokenOfSecret(secret.text, wish.name));
    found.directory = *place;
    found.everywhere = place == &wish.out || OnNetworkFileSystem(*place);
  }
  return found;
}

}  // namespace ncclwatch::exchange
