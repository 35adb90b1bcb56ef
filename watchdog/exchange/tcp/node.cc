#include "watchdog/exchange/tcp/node.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "ncclwatch/nanoseconds.h"

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

constexpr std::int64_t kNodeLooks_ns = 20 * kMs;
constexpr std::int64_t kIdle_ns = 250 * kMs;
constexpr std::int64_t kPause_ns = 750 * kMs;  // between two ticks: this thread was stopped or starved
constexpr std::int64_t kPeersEvery_ns = 100 * kMs, kPeersEveryMember_ns = 300'000, kMemoryEvery_ns = kSecond;

}  // namespace

Rendezvous::Rendezvous(TcpContext* context, Acceptor* acceptor)
    : context_(context),
      acceptor_(acceptor),
      resolver_(Hosts(context->setup.address)),
      ports_{context->setup.address.port} {
  const std::vector<std::uint16_t>& more = context->setup.address.more_ports;
  ports_.insert(ports_.end(), more.begin(), more.end());
}

// A service's address is no node's own: there rank 0 is whom it leads to.
bool Rendezvous::IsOurs() const { return own_ || (context_->setup.self.has_rank_zero && resolver_.settled()); }

void Rendezvous::Update() {
  others_.clear();
  own_ = false;
  for (const Endpoint& found : resolver_.found()) {
    const bool own = IsOwn(found);
    own_ = own_ || own;
    if (own && !context_->place.Reaches(found)) SayElsewhere(found);
    for (const std::uint16_t port : ports_)
      if (!own || !acceptor_->ListensAt(port)) others_.push_back(found.With(port));
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

TcpNode::TcpNode(const Setup& setup, Loop* loop, Mailbox* mailbox)
    : context_(setup, loop, mailbox),
      acceptor_(&context_, this),
      dialer_(&context_, this),
      meeting_(&context_, &acceptor_) {
  const std::int64_t now_ns = Now();
  context_.awake_ns = ticked_ns_ = now_ns;
  std::optional<Memory> memory;
  if (!setup.memory.empty()) memory = Recall(setup.directory, setup.memory);
  if (memory && memory->port != 0 && settings::InRange(setup.bind, memory->port) == memory->port)
    context_.port = acceptor_.Listen(memory->port);
  if (context_.port == 0) context_.port = acceptor_.ListenAnywhere();
  if (context_.port == 0) SayDeaf(errno);
  std::vector<Endpoint> hints;
  if (memory) {
    term_ = memory->succession.term;
    successors_ = memory->succession.successors;
    succeeds_own_hub_ = memory->was_hub && context_.port == memory->port;
    if (memory->hub) hints.push_back(*memory->hub);
  }
  BeginSearch(now_ns, memory ? memory->hub_node : "", std::move(hints));
  if (memory && memory->hub) search_.trust_ns = setup.timing.first_patience;
}

TcpNode::~TcpNode() = default;

void TcpNode::SayDeaf(int error) {
  char text[128];
  const std::string where = context_.setup.bind == settings::BindAddress() ? "" : " where NCCLWATCH_BIND allows it";
  context_.mailbox->Say(fmt::format("the exchange cannot listen{}: {}; this node cannot be the hub", where,
                                    strerror_r(error, text, sizeof(text))));
}

void TcpNode::Tick(std::int64_t now_ns) {
  if (now_ns - std::exchange(ticked_ns_, now_ns) > kPause_ns) context_.awake_ns = now_ns;
  if (!leaving_ && now_ns - looked_ns_ >= kNodeLooks_ns) Look(now_ns);
  DrainMailbox();
  Publish(now_ns);
}

void TcpNode::Look(std::int64_t now_ns) {
  looked_ns_ = now_ns;
  acceptor_.Tick(now_ns);
  context_.lingering.Tick(now_ns);
  meeting_.Tick(now_ns, hub_ || uplink_ ? 0 : now_ns - search_.since_ns);
  if (uplink_) uplink_->Tick(now_ns);
  if (doubted_) doubted_->Tick(now_ns);
  if (hub_) {
    hub_->Tick(now_ns);
    term_ = hub_->term();
    LookForRivals();
  } else if (!uplink_) {
    if (MayLead(now_ns))
      BecomeHub();
    else
      LookForHub(now_ns);
  }
  dialer_.Tick(now_ns);
  KeepMemory(now_ns);
}

std::int64_t TcpNode::Due_ns() const {
  std::int64_t due = std::min({ticked_ns_ + kIdle_ns, acceptor_.Due_ns(), dialer_.Due_ns()});
  for (const Uplink* const uplink : {uplink_.get(), doubted_.get()})
    if (uplink) due = std::min(due, uplink->Due_ns());
  if (hub_) due = std::min(due, hub_->Due_ns());
  return std::max(due, looked_ns_ + kNodeLooks_ns);
}

// Calls that are under way go on: one of them may still find a hub.
void TcpNode::BecomeHub() {
  doubted_.reset();
  hub_ = std::make_unique<Hub>(&context_, term_ = TermAfter(term_));
  // The one before may come back and does not know.
  LookForRivals();
  peers_ns_ = memory_ns_ = 0;
}

void TcpNode::GiveWay(const Endpoint& to, const std::string& node) {
  term_ = hub_->term();
  successors_ = hub_->CurrentSuccession().successors;
  hub_->Dismiss({term_, to, node});
  hub_.reset();
  succeeds_own_hub_ = false;
  BeginSearch(Now(), "", {to});
  search_.reported_ns = search_.since_ns;
}

void TcpNode::Answer(std::unique_ptr<Connection> connection, Kind kind, std::string payload) {
  connection->Send(static_cast<std::uint16_t>(kind), std::move(payload));
  connection->Flush();
  connection->Close();
  context_.loop->DeferDelete(std::move(connection));
}

void TcpNode::OnJoin(std::unique_ptr<Connection> connection, const Join& join) {
  const Endpoint joiner = connection->remote().With(join.port);
  const Redirect nowhere{term_, std::nullopt, ""};
  // Ourselves by a roundabout way, or the other leader of a change on this node.
  if (join.node == context_.setup.self.node || leaving_)
    return Answer(std::move(connection), Kind::kElsewhere, nowhere.Encode());
  if (hub_ && !join.hub) return hub_->Adopt(std::move(connection), join, Now());
  // Who may be a stranger ends nothing between those who are none.
  const bool weaker = connection->guessable() && (hub_ ? hub_->HasProven() : uplink_ && !uplink_->guessable());
  if (hub_) {
    if (!weaker && Claim{join.members, join.term, join.node}.Beats(hub_->claim())) {
      Answer(std::move(connection), Kind::kYield, {});
      return GiveWay(joiner, join.node);
    }
    const Redirect here{term_, Endpoint::Any(context_.port), context_.setup.self.node};
    return Answer(std::move(connection), Kind::kElsewhere, here.Encode());
  }
  if (uplink_ && (weaker || uplink_->welcome().node != join.node)) {
    const Redirect there{uplink_->term(), uplink_->hub(), uplink_->welcome().node};
    return Answer(std::move(connection), Kind::kElsewhere, there.Encode());
  }
  Answer(std::move(connection), Kind::kElsewhere, nowhere.Encode());
  // Our hub itself, or its successor on its node, looks for one: the connection to it is dead.
  if (uplink_) OnHubLost(uplink_.get(), "came again", std::nullopt);
  if (join.hub) Hint(joiner);
}

Join TcpNode::OwnJoin() {
  const Self& self = context_.setup.self;
  return {hub_ != nullptr,
          self.incarnation,
          term_,
          hub_ ? hub_->claim().members : 0,
          context_.port,
          self.node,
          self.host.substr(0, kMaxName),
          searches_};
}

void TcpNode::Leave(std::int64_t) {
  leaving_ = true;
  DrainMailbox();
  dialer_.Stop();
  if (hub_) hub_->SayLeave();
  if (uplink_) uplink_->SayLeave();
  if (doubted_) doubted_->SayLeave();
}

bool TcpNode::Idle() const { return hub_ ? hub_->Idle() : !uplink_ || uplink_->Idle(); }

void TcpNode::DrainMailbox() {
  while (hub_ || (uplink_ && uplink_->HasRoom())) {
    std::optional<Outgoing> outgoing = context_.mailbox->TakeOutgoing();
    if (!outgoing) return;
    if (hub_)
      hub_->SendOwn(*outgoing);
    else
      uplink_->Send(*outgoing);
  }
}

void TcpNode::Publish(std::int64_t now_ns) {
  Status status;
  status.hub = hub_ != nullptr;
  status.connected = hub_ || uplink_;
  status.guessable = uplink_ && uplink_->guessable();
  if (uplink_) status.hub_node = uplink_->welcome().node;
  if (hub_) status.hub_node = context_.setup.self.node;
  status.term = hub_ ? hub_->term() : uplink_ ? uplink_->term() : term_;
  context_.mailbox->Publish(status, context_.counters);
  // Of a thousand members somebody is heard all the time: who came or went is told at once, the rest by and by.
  const std::int64_t every_ns = hub_ ? kPeersEvery_ns + hub_->claim().members * kPeersEveryMember_ns : kPeersEvery_ns;
  if ((hub_ && hub_->TakeChanged()) || now_ns - peers_ns_ >= every_ns) PublishPeers(now_ns);
}

void TcpNode::PublishPeers(std::int64_t now_ns) {
  peers_ns_ = now_ns;
  if (hub_) return context_.mailbox->PublishPeers(hub_->Peers(now_ns));
  std::vector<Peer> peers;
  if (uplink_) peers.push_back(uplink_->HubPeer(now_ns));
  for (const Successor& successor : successors_) {
    if (successor.node == context_.setup.self.node || (uplink_ && successor.node == uplink_->welcome().node)) continue;
    Peer peer;
    peer.node = successor.node;
    peer.host = successor.host;
    peer.address = successor.at.ToText();
    peer.connected = uplink_ != nullptr;
    peers.push_back(std::move(peer));
  }
  context_.mailbox->PublishPeers(std::move(peers));
}

void TcpNode::KeepMemory(std::int64_t now_ns) {
  if (context_.setup.memory.empty() || !(hub_ || uplink_) || now_ns - memory_ns_ < kMemoryEvery_ns) return;
  memory_ns_ = now_ns;
  Memory memory;
  memory.was_hub = hub_ != nullptr;
  memory.port = context_.port;
  if (uplink_) {
    memory.hub = uplink_->hub();
    memory.hub_node = uplink_->welcome().node;
  }
  memory.succession = hub_ ? hub_->CurrentSuccession() : SuccessionList{term_, 0, successors_};
  std::string bytes = memory.Encode();
  if (bytes == memory_) return;
  Remember(context_.setup.directory, context_.setup.memory, memory);
  memory_ = std::move(bytes);
}

std::unique_ptr<Node> MakeTcpNode(const Setup& setup, Loop* loop, Mailbox* mailbox) {
  return std::make_unique<TcpNode>(setup, loop, mailbox);
}

}  // namespace ncclwatch::exchange
