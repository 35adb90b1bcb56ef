#include "tests/unit/exchange/cluster.h"

#include <unistd.h>

#include <algorithm>

#include "ncclwatch/nanoseconds.h"
#include "watchdog/exchange/rendezvous/address.h"

namespace ncclwatch::testing {

using exchange::Now;

namespace {

constexpr std::int64_t kDeadline_ns = 60'000 * kMs;

}  // namespace

exchange::Timing Quick() {
  exchange::Timing timing;
  timing.ping = 20 * kMs;
  timing.first_patience = 600 * kMs;
  timing.least_patience = 400 * kMs;
  timing.most_patience = 2000 * kMs;
  timing.connect = timing.silence = timing.handshake = 700 * kMs;
  timing.succession = 150 * kMs;
  return timing;
}

std::string Name(int number) { return "node-" + std::string(number < 10 ? "0" : "") + std::to_string(number); }

exchange::Setup SetupOf(const std::string& node, const std::string& address) {
  exchange::Setup setup;
  setup.address = *exchange::ParseAddress(address, nullptr);
  setup.self.node = node;
  setup.self.host = "host of " + node;
  setup.self.incarnation = 1;
  setup.tokens = {exchange::TokenOfSecret("test")};
  setup.job = "test job";
  setup.timing = Quick();
  return setup;
}

Leader::Leader(const exchange::Setup& from) : setup(from), loop(exchange::Loop::Make({})) {
  std::string why;
  node = setup.address.kind == exchange::Address::Kind::kTcp
             ? exchange::MakeTcpNode(setup, loop.get(), &mailbox)
             : exchange::MakeRedisNode(setup, loop.get(), &mailbox, &why);
}

Leader::~Leader() { node.reset(); }

void Leader::Drive(std::int64_t wait_ns) {
  if (stopped) return;
  node->Tick(Now());
  loop->Wait(wait_ns);
}

int Leader::ConnectedPeers() const {
  const std::vector<exchange::Peer> peers = mailbox.Peers();
  return static_cast<int>(
      std::count_if(peers.begin(), peers.end(), [](const exchange::Peer& peer) { return peer.connected; }));
}

std::vector<exchange::Message> Leader::Take() {
  std::vector<exchange::Message> all;
  while (std::optional<exchange::Message> message = mailbox.Receive()) all.push_back(std::move(*message));
  return all;
}

Leader& Cluster::Add(const exchange::Setup& setup) {
  leaders_.push_back(std::make_unique<Leader>(setup));
  return *leaders_.back();
}

void Cluster::Kill(std::size_t which) { leaders_[which].reset(); }

bool Cluster::Until(const std::function<bool()>& holds) {
  const std::int64_t deadline_ns = Now() + kDeadline_ns;
  while (!holds()) {
    if (Now() > deadline_ns) return false;
    for (const auto& leader : leaders_)
      if (leader) leader->Drive();
    usleep(200);
  }
  return true;
}

bool Cluster::UntilAllHave(const std::string& hub) {
  return Until([&] {
    int members = 0;
    const Leader* its = nullptr;
    for (const auto& leader : leaders_) {
      if (!leader || leader->stopped) continue;
      if (!leader->Connected() || leader->HubNode() != hub) return false;
      if (leader->IsHub()) its = leader.get();
      members += !leader->IsHub();
    }
    return its && its->ConnectedPeers() == members;
  });
}

int Cluster::Hubs() const {
  return static_cast<int>(
      std::count_if(leaders_.begin(), leaders_.end(), [](const auto& leader) { return leader && leader->IsHub(); }));
}

}  // namespace ncclwatch::testing
