#include "watchdog/exchange/rendezvous/token_search.h"

#include <fmt/format.h>
#include <unistd.h>

#include "watchdog/exchange/rendezvous/token.h"
#include "watchdog/exchange/rendezvous/token_file.h"

namespace ncclwatch::exchange {

void PutPlaces(const std::string& out, const rundir::Lookup& lookup, TokenRequest* request) {
  const auto absolute = [&](std::string_view name) {
    const std::string_view path = lookup(name).value_or("");
    return path.starts_with('/') ? std::string(path) : std::string();
  };
  if (!out.empty()) request->out = out + "/.ncclwatch";
  if (const std::string state = absolute("XDG_STATE_HOME"); !state.empty()) {
    request->base = state;
    request->state = state + "/ncclwatch";
  } else if (const std::string home = absolute("HOME"); !home.empty()) {
    request->base = home;
    request->state = home + "/.ncclwatch";
  }
}

FoundTokens FindTokens(const TokenRequest& request) {
  FoundTokens found;
  if (!request.file.empty()) {
    const Secret secret = ReadSecret(request.file);
    if (secret.text.empty())
      found.refused = fmt::format("NCCLWATCH_TOKEN_FILE={} is not taken: {}", request.file, secret.why);
    else
      found.tokens.push_back(TokenOfSecret(secret.text, request.job_name));
  } else if (!request.secret.empty()) {
    found.tokens.push_back(TokenOfSecret(request.secret, request.job_name));
  }
  if (request.GivenByUser()) {
    found.everywhere = true;
    return found;
  }
  for (const std::string* const place : {&request.out, &request.state}) {
    if (place->empty() || !found.tokens.empty()) continue;
    if (place == &request.state && access(request.base.c_str(), W_OK | X_OK) != 0) continue;
    const Secret secret = SharedSecret(*place, request.name);
    if (secret.text.empty()) continue;
    found.tokens.push_back(TokenOfSecret(secret.text, request.name));
    found.directory = *place;
    found.everywhere = place == &request.out || OnNetworkFileSystem(*place);
  }
  return found;
}

}  // namespace ncclwatch::exchange
