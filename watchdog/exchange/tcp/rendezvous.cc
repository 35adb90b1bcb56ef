#include "watchdog/exchange/tcp/rendezvous.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace ncclwatch::exchange {
namespace {

constexpr std::int64_t kTryEvery_ns = 100'000'000;
constexpr std::int64_t kLookAtInterfacesEvery_ns = 5'000'000'000;
// As often the time of succession without a hub: the next port is worth a try. Whoever is behind this one has had the
// time to prove itself.
constexpr int kNextPortAfter = 3;

std::vector<std::string> Hosts(const Address& address) {
  std::vector<std::string> hosts = {address.host};
  hosts.insert(hosts.end(), address.more_hosts.begin(), address.more_hosts.end());
  return hosts;
}

}  // namespace

Rendezvous::Rendezvous(TcpContext* context, Acceptor* acceptor)
    : context_(context),
      acceptor_(acceptor),
      resolver_(Hosts(context->setup.address)),
      ports_{context->setup.address.port} {
  const std::vector<std::uint16_t>& more = context->setup.address.more_ports;
  ports_.insert(ports_.end(), more.begin(), more.end());
}

bool Rendezvous::Includes(const Endpoint& endpoint) const {
  return std::find(all_.begin(), all_.end(), endpoint) != all_.end();
}

// A service's address is no node's own: there rank 0 is whom it leads to.
bool Rendezvous::IsOurs() const { return own_ || (context_->setup.self.has_rank_zero && resolver_.settled()); }

void Rendezvous::Update() {
  all_.clear();
  others_.clear();
  own_ = false;
  for (const Endpoint& found : resolver_.found()) {
    const bool own = IsOwn(found);
    own_ = own_ || own;
    if (own && !context_->place.Reaches(found)) SayElsewhere(found);
    for (const std::uint16_t port : ports_) {
      all_.push_back(found.With(port));
      if (!own || !acceptor_->ListensAt(port)) others_.push_back(found.With(port));
    }
  }
}

void Rendezvous::SayElsewhere(const Endpoint& called) {
  if (std::exchange(said_elsewhere_, true)) return;
  context_->mailbox->Say(
      fmt::format("the other nodes call this one at {} ({}), but NCCLWATCH_BIND={} keeps it from listening there: "
                  "NCCLWATCH_EXCHANGE=tcp://host:port can name another address",
                  called.With(ports_.front()).ToText(), context_->setup.address.source, context_->place.ToText()));
}

void Rendezvous::TryToListen(std::int64_t now_ns, std::int64_t alone_ns) {
  if (now_ns - tried_ns_ < kTryEvery_ns) return;
  tried_ns_ = now_ns;
  const auto tries = static_cast<std::size_t>(alone_ns / (kNextPortAfter * context_->setup.timing.succession)) + 1;
  for (std::size_t i = 0; i < std::min(tries, ports_.size()) && port_ == 0; ++i) {
    // Not at the address that the name means here: it may be 127.0.1.1, and an interface's address elsewhere.
    port_ = acceptor_->ListensAt(ports_[i]) ? ports_[i] : acceptor_->Listen(ports_[i]);
    if (port_ == 0) listen_error_ = errno;
  }
  if (port_ != 0) Update();
}

void Rendezvous::Tick(std::int64_t now_ns, std::int64_t alone_ns) {
  // An interface may come up after us.
  if (resolver_.Tick(now_ns) || now_ns - looked_ns_ > kLookAtInterfacesEvery_ns) {
    looked_ns_ = now_ns;
    Update();
  }
  if (port_ == 0 && IsOurs()) TryToListen(now_ns, alone_ns);
}

std::string Rendezvous::Trouble() const {
  if (resolver_.found().empty()) return resolver_.settled() ? "the name is not known" : "the name is being looked up";
  if (port_ == 0 && IsOurs() && listen_error_ != 0) {
    char text[128];
    return std::string("cannot listen there: ") + strerror_r(listen_error_, text, sizeof(text));
  }
  return {};
}

}  // namespace ncclwatch::exchange
