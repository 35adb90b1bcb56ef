#include "watchdog/exchange/tcp_node.h"

#include <algorithm>
#include <utility>

namespace ncclwatch::exchange {
namespace {

constexpr std::int64_t kMs = 1'000'000, kSecond = 1'000 * kMs;
constexpr std::int64_t kLookEvery_ns = 20 * kMs;
constexpr std::int64_t kIdle_ns = 250 * kMs;
constexpr std::int64_t kPause_ns = 750 * kMs;  // between two ticks: this thread was stopped or starved
constexpr std::int64_t kPeersEvery_ns = 100 * kMs, kPeersEveryMember_ns = 300'000, kMemoryEvery_ns = kSecond;
constexpr std::int64_t kCallRivalsEvery_ns = 3 * kSecond;
constexpr std::int64_t kCallHubEvery_ns = 250 * kMs, kCallHubLaterEvery_ns = 2 * kSecond, kLater_ns = 10 * kSecond;
constexpr std::int64_t kSayAfter_ns = 30 * kSecond;
constexpr std::size_t kMostHints = 16;

// An address that means "me" or "my own machine" to who says it, as seen from here.
Endpoint SeenFrom(const Endpoint& speaker, const Endpoint& said) {
  return said.IsAny() || (said.IsLoopback() && !speaker.IsLoopback()) ? speaker.With(said.port) : said;
}

}  // namespace

TcpNode::TcpNode(const Setup& setup, Loop* loop, Mailbox* mailbox)
    : context_(setup, loop, mailbox),
      acceptor_(&context_, this),
      dialer_(&context_, this),
      meeting_(&context_, &acceptor_) {
  const std::int64_t now_ns = Now();
  context_.awake_ns = ticked_ns_ = now_ns;
  std::optional<Memory> memory;
  if (!setup.memory.empty()) memory = Recall(setup.memory);
  if (memory && memory->port != 0) context_.port = acceptor_.Listen(Endpoint::Any(memory->port));
  if (context_.port == 0) context_.port = acceptor_.Listen(Endpoint::Any(0));
  std::vector<Endpoint> hints;
  if (memory) {
    term_ = memory->line.term;
    heirs_ = memory->line.heirs;
    heir_of_hub_ = memory->was_hub && context_.port == memory->port;
    if (memory->hub) hints.push_back(*memory->hub);
  }
  BeginSearch(now_ns, memory ? memory->hub_node : "", std::move(hints));
  if (memory && memory->hub) search_.trust_ns = setup.timing.first_patience;
}

TcpNode::~TcpNode() = default;

void TcpNode::BeginSearch(std::int64_t now_ns, const std::string& lost_node, std::vector<Endpoint> hints) {
  search_ = {now_ns, lost_node, std::move(hints), {}, 0, 0, false};
  ++searches_;
  dialer_.Stop();
  looked_ns_ = 0;
}

void TcpNode::Tick(std::int64_t now_ns) {
  if (now_ns - std::exchange(ticked_ns_, now_ns) > kPause_ns) context_.awake_ns = now_ns;
  if (!leaving_ && now_ns - looked_ns_ >= kLookEvery_ns) Look(now_ns);
  DrainMailbox();
  Publish(now_ns);
}

void TcpNode::Look(std::int64_t now_ns) {
  looked_ns_ = now_ns;
  acceptor_.Tick(now_ns);
  context_.parting.Tick(now_ns);
  meeting_.Tick(now_ns, hub_ || uplink_ ? 0 : now_ns - search_.since_ns);
  if (uplink_) uplink_->Tick(now_ns);
  if (doubted_) doubted_->Tick(now_ns);
  if (hub_) {
    hub_->Tick(now_ns);
    term_ = hub_->term();
    LookForRivals(now_ns);
  } else if (!uplink_) {
    if (MayLead(now_ns))
      BecomeHub(now_ns);
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
  return std::max(due, looked_ns_ + kLookEvery_ns);
}

void TcpNode::LookForHub(std::int64_t now_ns) {
  const std::int64_t alone_ns = now_ns - search_.since_ns;
  std::vector<Endpoint> targets = search_.hints;
  targets.insert(targets.end(), meeting_.others().begin(), meeting_.others().end());
  // Those in line are called in time to know whether they live when they may be hub.
  for (std::size_t i = 0; i < heirs_.size(); ++i)
    if (heirs_[i].node != context_.setup.self.node &&
        alone_ns >= context_.setup.timing.succession * static_cast<std::int64_t>(i))
      targets.push_back(heirs_[i].at);
  dialer_.Aim(std::move(targets), alone_ns < kLater_ns ? kCallHubEvery_ns : kCallHubLaterEvery_ns);
  SayTrouble(now_ns);
}

void TcpNode::SayTrouble(std::int64_t now_ns) {
  if (search_.said || now_ns - search_.since_ns < kSayAfter_ns) return;
  search_.said = true;
  const Address& address = context_.setup.address;
  std::string why = meeting_.Trouble();
  if (why.empty()) why = dialer_.last_failure();
  context_.mailbox->Say("no other node answers at " + address.ToText() + " (" + address.source + "): " + why +
                        "; until one does this node is judged alone");
}

// Where the hub would be if the network was cut, and where it was before us.
void TcpNode::LookForRivals(std::int64_t) {
  std::vector<Endpoint> targets = search_.hints;
  targets.insert(targets.end(), meeting_.others().begin(), meeting_.others().end());
  for (const Heir& heir : heirs_)
    if (heir.node != context_.setup.self.node && !hub_->Has(heir.at)) targets.push_back(heir.at);
  dialer_.Aim(std::move(targets), kCallRivalsEvery_ns);
}

std::size_t TcpNode::PlaceInLine() const {
  std::size_t place = 0;
  for (const Heir& heir : heirs_) {
    if (heir.node == context_.setup.self.node) return place;
    if (heir.node != search_.lost_node) ++place;
  }
  // Behind all of them; names differ, so that not all of these wake up together.
  return place + static_cast<unsigned char>(context_.setup.self.node.back()) % 4;
}

bool TcpNode::BetterOneLives(std::size_t place, std::int64_t now_ns) const {
  const auto lives = [&](const Endpoint& at) {
    if (dialer_.Reaches(at)) return true;
    const auto seen = search_.alive.find(at);
    return seen != search_.alive.end() && now_ns - seen->second < 2 * context_.setup.timing.succession;
  };
  if (std::any_of(meeting_.others().begin(), meeting_.others().end(), lives)) return true;
  std::size_t at = 0;
  for (const Heir& heir : heirs_) {
    if (heir.node == context_.setup.self.node || at >= place) return false;
    if (heir.node == search_.lost_node) continue;
    if (lives(heir.at)) return true;
    ++at;
  }
  return false;
}

bool TcpNode::MayLead(std::int64_t now_ns) const {
  const Timing& timing = context_.setup.timing;
  const std::int64_t alone_ns = now_ns - search_.since_ns;
  if (search_.told_ns != 0 && now_ns - search_.told_ns < timing.handshake) return false;
  // On a network that holds back what is said a silent hub has longer to be heard: to leave it and come back costs
  // more.
  const std::int64_t doubt_ns = doubted_ ? doubted_->patience().Limit_ns() - timing.least_patience : search_.trust_ns;
  // The meeting place, or the place of the hub before us: nobody else is looked for there. Only another hub that the
  // others may have chosen meanwhile.
  if (meeting_.listening() || heir_of_hub_) return term_ == 0 || alone_ns >= timing.succession / 2 + doubt_ns;
  if (term_ == 0) return false;
  const std::size_t place = PlaceInLine();
  if (alone_ns < timing.succession * static_cast<std::int64_t>(place + 1) + doubt_ns) return false;
  return !BetterOneLives(place, now_ns) || alone_ns > 2 * timing.most_patience;
}

// Calls that are under way go on: one of them may still find a hub.
void TcpNode::BecomeHub(std::int64_t now_ns) {
  doubted_.reset();
  hub_ = std::make_unique<Hub>(&context_, ++term_);
  // The one before may come back and does not know.
  LookForRivals(now_ns);
  peers_ns_ = memory_ns_ = 0;
}

void TcpNode::GiveWay(const Endpoint& to, const std::string& node) {
  term_ = hub_->term();
  heirs_ = hub_->CurrentLine().heirs;
  hub_->Dismiss({term_, to, node});
  hub_.reset();
  heir_of_hub_ = false;
  BeginSearch(Now(), "", {to});
  search_.told_ns = search_.since_ns;
}

void TcpNode::Answer(std::unique_ptr<Connection> connection, Kind kind, std::string payload) {
  connection->Send(static_cast<std::uint16_t>(kind), std::move(payload));
  connection->Flush();
  connection->Close();
  context_.loop->Bury(std::move(connection));
}

void TcpNode::OnJoin(std::unique_ptr<Connection> connection, const Join& join) {
  const Endpoint joiner = connection->remote().With(join.port);
  const Elsewhere nowhere{term_, std::nullopt, ""};
  // Ourselves by a roundabout way, or the other leader of a change on this node.
  if (join.node == context_.setup.self.node || leaving_)
    return Answer(std::move(connection), Kind::kElsewhere, nowhere.Encode());
  if (hub_ && !join.hub) return hub_->Adopt(std::move(connection), join, Now());
  if (hub_) {
    if (Claim{join.members, join.term, join.node}.Beats(hub_->claim())) {
      Answer(std::move(connection), Kind::kYield, {});
      return GiveWay(joiner, join.node);
    }
    const Elsewhere here{term_, Endpoint::Any(context_.port), context_.setup.self.node};
    return Answer(std::move(connection), Kind::kElsewhere, here.Encode());
  }
  if (uplink_ && uplink_->welcome().node != join.node) {
    const Elsewhere there{uplink_->term(), uplink_->hub(), uplink_->welcome().node};
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

void TcpNode::Hint(const Endpoint& at) {
  std::erase(search_.hints, at);
  search_.hints.insert(search_.hints.begin(), at);
  if (search_.hints.size() > kMostHints) search_.hints.resize(kMostHints);
  looked_ns_ = 0;
  dialer_.Hurry(at);
}

void TcpNode::OnWelcome(std::unique_ptr<Connection> connection, const Welcome& welcome) {
  // Called before we became hub ourselves, and nobody has come.
  if (hub_ && hub_->claim().members == 0 && !leaving_) GiveWay(connection->remote().With(welcome.port), welcome.node);
  if (hub_ || uplink_ || leaving_) {
    connection->Close();
    return context_.loop->Bury(std::move(connection));
  }
  Uplink::Handler* const handler = this;
  uplink_ = std::make_unique<Uplink>(&context_, handler, std::move(connection), welcome, hub_patience_);
  doubted_.reset();
  FoundHub();
}

void TcpNode::OnElsewhere(const Endpoint& from, const Elsewhere& elsewhere) {
  if (uplink_ || leaving_) return;
  if (!elsewhere.hub) {
    search_.alive[from] = Now();
    return;
  }
  const Endpoint at = SeenFrom(from, *elsewhere.hub);
  if (hub_) {
    if (elsewhere.node == context_.setup.self.node) return;  // a member of ours
    // "Me": its claim is better than ours.
    if (elsewhere.hub->IsAny()) return GiveWay(at, elsewhere.node);
    return Hint(at);
  }
  // It has not missed the hub that we miss.
  if (elsewhere.node == search_.lost_node) search_.alive[from] = Now();
  if (elsewhere.node == context_.setup.self.node) return;
  if (elsewhere.node != search_.lost_node) search_.told_ns = Now();
  Hint(at);
}

void TcpNode::OnHubLost(Uplink* uplink, const std::string& why, const std::optional<Elsewhere>& elsewhere) {
  std::vector<Endpoint> hints;
  if (elsewhere && elsewhere->hub) hints.push_back(SeenFrom(uplink->at(), *elsewhere->hub));
  if (uplink == doubted_.get()) {
    doubted_.reset();
    if (!hints.empty()) Hint(hints.front());
  } else {
    MissHub(why, std::move(hints));
    uplink_.reset();
  }
  if (elsewhere && elsewhere->hub) search_.told_ns = Now();
}

void TcpNode::OnHubSilent(Uplink*) {
  MissHub(kWasSilent, {});
  doubted_ = std::move(uplink_);
}

void TcpNode::OnHubHeard(Uplink*) {
  uplink_ = std::move(doubted_);
  FoundHub();
}

void TcpNode::FoundHub() {
  dialer_.Stop();
  term_ = std::max(term_, uplink_->term());
  heir_of_hub_ = false;
  ++context_.counters.joined;
  context_.mailbox->Deliver({Type::kJoined, uplink_->welcome().node, uplink_->term(), {}});
  peers_ns_ = memory_ns_ = looked_ns_ = 0;
}

void TcpNode::MissHub(const std::string& why, std::vector<Endpoint> hints) {
  hints.push_back(uplink_->at());
  hints.push_back(uplink_->hub());
  const std::string node = uplink_->welcome().node;
  term_ = std::max(term_, uplink_->term());
  hub_patience_ = uplink_->patience();
  ++context_.counters.left;
  context_.mailbox->Deliver({Type::kLeft, node, term_, why});
  peers_ns_ = 0;
  BeginSearch(Now(), node, std::move(hints));
}

void TcpNode::OnLine(const Line& line) {
  term_ = std::max(term_, line.term);
  heirs_ = line.heirs;
  for (Heir& heir : heirs_) heir.at = SeenFrom(uplink_->at(), heir.at);
  peers_ns_ = memory_ns_ = 0;
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
  for (const Heir& heir : heirs_) {
    if (heir.node == context_.setup.self.node || (uplink_ && heir.node == uplink_->welcome().node)) continue;
    Peer peer;
    peer.node = heir.node;
    peer.host = heir.host;
    peer.address = heir.at.ToText();
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
  memory.line = hub_ ? hub_->CurrentLine() : Line{term_, 0, heirs_};
  std::string bytes = memory.Encode();
  if (bytes == memory_) return;
  Remember(context_.setup.memory, memory);
  memory_ = std::move(bytes);
}

std::unique_ptr<Node> MakeTcpNode(const Setup& setup, Loop* loop, Mailbox* mailbox) {
  return std::make_unique<TcpNode>(setup, loop, mailbox);
}

}  // namespace ncclwatch::exchange
