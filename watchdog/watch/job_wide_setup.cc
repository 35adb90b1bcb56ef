#include "watchdog/watch/job_wide_setup.h"

#include <unistd.h>

#include "watchdog/act/in_time.h"
#include "watchdog/exchange/address.h"
#include "watchdog/exchange/noted_ids.h"
#include "watchdog/exchange/token.h"
#include "watchdog/rundir/hydra.h"

namespace ncclwatch::watch {
namespace {

constexpr int kPatience_ms = 200;  // with the processes above this one; the heartbeat waits for it

std::optional<std::string_view> Find(const std::vector<std::string>& environment, std::string_view name) {
  for (const std::string& entry : environment) {
    const std::string_view text = entry;
    if (text.size() > name.size() && text.starts_with(name) && text[name.size()] == '=')
      return text.substr(name.size() + 1);
  }
  return std::nullopt;
}

bool SeveralNodes(const format::Identity& own) {
  return own.local_world_size > 0 && own.world_size > own.local_world_size;
}

}  // namespace

std::optional<exchange::Setup> SetupFor(const Context& context, std::uint32_t generation,
                                        const std::vector<std::string>& environment) {
  const format::Identity& own = context.own->identity;
  const std::string& wanted = context.settings.exchange;
  if (wanted == "off" || (wanted == "auto" && !SeveralNodes(own))) return std::nullopt;
  const rundir::Lookup lookup = rundir::WithHydra([&](std::string_view name) { return Find(environment, name); },
                                                  getpid(), act::InTime(kPatience_ms));
  exchange::Setup setup;
  setup.job = exchange::JobIdentity(lookup);
  std::string why;
  setup.bind = settings::ParseBind(context.settings.bind).value_or(settings::BindAddress());
  if (wanted == "auto") {
    setup.address = exchange::AddressFromLauncher(lookup, setup.bind);
  } else if (std::optional<exchange::Address> address = exchange::ParseAddress(wanted, &why)) {
    setup.address = *std::move(address);
  }
  if (!why.empty()) {
    context.log.Warn("the other nodes are not looked for: " + why);
    return std::nullopt;
  }
  setup.self.node = exchange::NodeName(context.directory);
  setup.self.host = own.host;
  setup.self.incarnation = generation;
  setup.self.has_rank_zero = own.rank >= 0 && own.rank == own.local_rank;
  if (!context.settings.token.empty()) setup.tokens.push_back(exchange::TokenOfSecret(context.settings.token));
  setup.tokens.push_back(exchange::TokenOfJob(setup.job));
  setup.memory = context.directory + "/exchange";
  return setup;
}

bool AskIds(const std::vector<std::string>& environment, exchange::Setup* setup) {
  setup->address = exchange::AddressFromNotedIds(setup->bind);
  const std::string comm_id(Find(environment, "NCCL_COMM_ID").value_or(""));
  const std::vector<exchange::Token> tokens = exchange::TokensOfNotedIds(comm_id.c_str());
  const auto weakest = setup->tokens.end() - 1;  // the job's, which anybody knows if the launcher tells nothing
  const bool worthless = setup->job.empty() && !tokens.empty();
  setup->tokens.insert(worthless ? setup->tokens.erase(weakest) : weakest, tokens.begin(), tokens.end());
  return setup->address.kind != exchange::Address::Kind::kNone;
}

}  // namespace ncclwatch::watch
