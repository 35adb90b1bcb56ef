#include "watchdog/watch/cluster/coordinator_setup.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "watchdog/act/in_time.h"
#include "watchdog/act/thread.h"
#include "watchdog/exchange/rendezvous/address.h"
#include "watchdog/exchange/rendezvous/seen_unique_ids.h"
#include "watchdog/exchange/rendezvous/token.h"
#include "watchdog/log/log.h"
#include "watchdog/rundir/hydra.h"

namespace ncclwatch::watch {
namespace {

constexpr int kPatience_ms = 200;      // with the processes above this one; the heartbeat waits for it
constexpr std::size_t kMostOfJob = 8;  // tokens that a Setup may have

std::optional<std::string_view> Find(const std::vector<std::string>& environment, std::string_view name) {
  for (const std::string& entry : environment) {
    const std::string_view text = entry;
    if (text.size() > name.size() && text.starts_with(name) && text[name.size()] == '=')
      return text.substr(name.size() + 1);
  }
  return std::nullopt;
}

bool SeveralNodes(const format::Identity& own, const std::vector<std::string>& environment) {
  if (own.local_world_size > 0) return own.world_size > own.local_world_size;
  // RANK, WORLD_SIZE and MASTER_ADDR alone, as in pods: how many ranks are here is not told. The master may be
  // elsewhere.
  const std::string_view master = Find(environment, "MASTER_ADDR").value_or("");
  const bool here = master.empty() || master == "localhost" || master == "::1" || master.starts_with("127.");
  return own.world_size > 1 && !here;
}

}  // namespace

struct TokenSearch::State {
  std::atomic<bool> done{false};
  FoundTokens found;  // constant once done, which is stored with release
};

TokenSearch::TokenSearch(const TokenRequest& request) : state_(std::make_shared<State>()) {
  const auto find = [state = state_, request] {
    state->found = FindTokens(request);
    state->done.store(true, std::memory_order_release);
  };
  const bool files =
      !request.file.empty() || (request.secret.empty() && !(request.out.empty() && request.state.empty()));
  if (!files) find();
  if (!files || act::StartThread("ncclwatch-token", find)) return;
  if (request.GivenByUser()) state_->found.refused = "no thread could be made that reads NCCLWATCH_TOKEN_FILE";
  state_->done.store(true, std::memory_order_release);
}

std::optional<FoundTokens> TokenSearch::Found() const {
  if (!state_->done.load(std::memory_order_acquire)) return std::nullopt;
  return state_->found;
}

std::optional<Plan> SetupFor(const Context& context, std::uint32_t generation,
                             const std::vector<std::string>& environment) {
  const format::Identity& own = context.own->identity;
  const std::string& wanted = context.settings.exchange;
  if (wanted == "off" || (wanted == "auto" && !SeveralNodes(own, environment))) return std::nullopt;
  const rundir::Lookup lookup = rundir::WithHydra([&](std::string_view name) { return Find(environment, name); },
                                                  getpid(), act::InTime(kPatience_ms));
  Plan plan;
  exchange::Setup& setup = plan.setup;
  setup.job = exchange::JobIdentity(lookup);
  TokenRequest& request = plan.request;
  request.secret = context.settings.token;
  request.file = context.settings.token_file;
  request.job_name = context.settings.job;
  std::string why;
  setup.bind = settings::ParseBind(context.settings.bind).value_or(settings::BindAddress());
  if (wanted == "auto") {
    setup.address = exchange::AddressFromLauncher(lookup, setup.bind);
  } else if (std::optional<exchange::Address> address = exchange::ParseAddress(wanted, &why)) {
    setup.address = *std::move(address);
    if (setup.job.empty() && !request.GivenByUser())
      why =
          "NCCLWATCH_EXCHANGE says where, but nothing tells this job from strangers' that say the same: "
          "NCCLWATCH_TOKEN_FILE would";
  }
  if (!why.empty()) {
    log::Warn("the other nodes are not looked for: {}", why);
    return std::nullopt;
  }
  if (!setup.job.empty()) {
    request.name = exchange::FileNameOf(setup.job);
    exchange::PutPlaces(context.settings.out, lookup, &request);
  }
  setup.self.node = exchange::NodeName(context.directory.path());
  setup.self.host = own.host;
  setup.self.incarnation = generation;
  setup.self.has_rank_zero = own.rank >= 0 && own.rank == own.local_rank;
  setup.directory = context.directory;
  setup.memory = "exchange";
  return plan;
}

void AskIds(exchange::Setup* setup) {
  if (setup->address.kind == exchange::Address::Kind::kNone)
    setup->address = exchange::AddressFromNotedIds(setup->bind);
}

void PutTokens(const Plan& plan, const FoundTokens& found, const std::vector<std::string>& environment,
               exchange::Setup* setup) {
  setup->tokens.clear();
  const bool redis = setup->address.kind == exchange::Address::Kind::kRedis;
  // Over Redis a message is for all, and has one seal: only a token that all have will do.
  if (!redis || found.everywhere) setup->tokens = found.tokens;
  if (plan.request.GivenByUser()) {
    if (setup->job.empty() && !setup->tokens.empty()) setup->job = exchange::IdentityOfSecret(setup->tokens.front());
    return;
  }
  const auto add = [setup](const exchange::Token& token) {
    if (setup->tokens.size() < kMostOfJob) setup->tokens.push_back(token);
  };
  if (!redis) {
    const std::string comm_id(Find(environment, "NCCL_COMM_ID").value_or(""));
    std::vector<exchange::Token> ids = exchange::TokensOfNotedIds(comm_id.c_str());
    std::stable_sort(ids.begin(), ids.end(), [](const auto& a, const auto& b) { return a.guessable < b.guessable; });
    for (const exchange::Token& id : ids) add(id);
  }
  if (!setup->job.empty() && (!redis || setup->tokens.empty())) add(exchange::TokenOfJob(setup->job));
}

}  // namespace ncclwatch::watch
