// How a leader over TCP finds a hub, loses it, and when it may be one itself.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ncclwatch/nanoseconds.h"
#include "watchdog/exchange/tcp/node.h"

namespace ncclwatch::exchange {
namespace {

constexpr std::int64_t kCallRivalsEvery_ns = 3 * kSecond;
constexpr std::int64_t kCallHubEvery_ns = 250 * kMs, kCallHubLaterEvery_ns = 2 * kSecond, kLater_ns = 10 * kSecond;
constexpr std::int64_t kSayAfter_ns = 30 * kSecond;
constexpr std::size_t kMostHints = 16, kMostAlive = 1024;

// An address that means "me" or "my own machine" to who says it, as seen from here.
Endpoint SeenFrom(const Endpoint& speaker, const Endpoint& said) {
  return said.IsAny() || (said.IsLoopback() && !speaker.IsLoopback()) ? speaker.With(said.port) : said;
}

}  // namespace

void TcpNode::BeginSearch(std::int64_t now_ns, const std::string& lost_node, std::vector<Endpoint> hints) {
  search_ = {now_ns, lost_node, std::move(hints), {}, 0, 0, false};
  ++searches_;
  dialer_.Stop();
  looked_ns_ = 0;
}

void TcpNode::LookForHub(std::int64_t now_ns) {
  const std::int64_t alone_ns = now_ns - search_.since_ns;
  std::vector<Endpoint> targets = search_.hints;
  targets.insert(targets.end(), meeting_.others().begin(), meeting_.others().end());
  // Those in line are called in time to know whether they live when they may be hub.
  for (std::size_t i = 0; i < successors_.size(); ++i)
    if (successors_[i].node != context_.setup.self.node &&
        alone_ns >= context_.setup.timing.succession * static_cast<std::int64_t>(i))
      targets.push_back(successors_[i].at);
  dialer_.Aim(std::move(targets), alone_ns < kLater_ns ? kCallHubEvery_ns : kCallHubLaterEvery_ns);
  SayTrouble(now_ns);
}

void TcpNode::SayTrouble(std::int64_t now_ns) {
  if (search_.said || now_ns - search_.since_ns < kSayAfter_ns) return;
  search_.said = true;
  const Address& address = context_.setup.address;
  std::string why = meeting_.Trouble();
  if (why.empty()) why = dialer_.last_failure();
  context_.mailbox->Say(fmt::format("no other node answers at {} ({}): {}; until one does this node is judged alone",
                                    address.ToText(), address.source, why));
}

// Where the hub would be if the network was cut, and where it was before us.
void TcpNode::LookForRivals() {
  std::vector<Endpoint> targets = search_.hints;
  targets.insert(targets.end(), meeting_.others().begin(), meeting_.others().end());
  for (const Successor& successor : successors_)
    if (successor.node != context_.setup.self.node && !hub_->Has(successor.at)) targets.push_back(successor.at);
  dialer_.Aim(std::move(targets), kCallRivalsEvery_ns);
}

std::size_t TcpNode::PlaceInLine() const {
  std::size_t place = 0;
  for (const Successor& successor : successors_) {
    if (successor.node == context_.setup.self.node) return place;
    if (successor.node != search_.lost_node) ++place;
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
  for (const Successor& successor : successors_) {
    if (successor.node == context_.setup.self.node || at >= place) return false;
    if (successor.node == search_.lost_node) continue;
    if (lives(successor.at)) return true;
    ++at;
  }
  return false;
}

bool TcpNode::MayLead(std::int64_t now_ns) const {
  const Timing& timing = context_.setup.timing;
  const std::int64_t alone_ns = now_ns - search_.since_ns;
  if (search_.reported_ns != 0 && now_ns - search_.reported_ns < timing.handshake) return false;
  // On a network that holds back what is said a silent hub has longer to be heard: to leave it and come back costs
  // more.
  const std::int64_t doubt_ns = doubted_ ? doubted_->patience().Doubt_ns() : search_.trust_ns;
  // The meeting place, or the place of the hub before us: nobody else is looked for there. Only another hub that the
  // others may have chosen meanwhile.
  if (meeting_.listening() || succeeds_own_hub_) return term_ == 0 || alone_ns >= timing.succession / 2 + doubt_ns;
  if (term_ == 0) return false;
  const std::size_t place = PlaceInLine();
  if (alone_ns < timing.succession * static_cast<std::int64_t>(place + 1) + doubt_ns) return false;
  return !BetterOneLives(place, now_ns) || alone_ns > 2 * timing.most_patience;
}

void TcpNode::Lives(const Endpoint& at) {
  // Each may have named another one to be called next.
  if (search_.alive.size() >= kMostAlive) search_.alive.clear();
  search_.alive[at] = Now();
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
    return context_.loop->DeferDelete(std::move(connection));
  }
  Uplink::Handler* const handler = this;
  uplink_ = std::make_unique<Uplink>(&context_, handler, std::move(connection), welcome, hub_patience_);
  doubted_.reset();
  FoundHub();
}

void TcpNode::OnElsewhere(const Endpoint& from, const Redirect& elsewhere) {
  if (uplink_ || leaving_) return;
  if (!elsewhere.hub) {
    Lives(from);
    return;
  }
  const Endpoint at = SeenFrom(from, *elsewhere.hub);
  if (hub_) {
    if (elsewhere.guessable && hub_->HasProven()) return;
    if (elsewhere.node == context_.setup.self.node) return;  // a member of ours
    // "Me": its claim is better than ours.
    if (elsewhere.hub->IsAny()) return GiveWay(at, elsewhere.node);
    return Hint(at);
  }
  // It has not missed the hub that we miss.
  if (elsewhere.node == search_.lost_node) Lives(from);
  if (elsewhere.node == context_.setup.self.node) return;
  if (elsewhere.node != search_.lost_node) search_.reported_ns = Now();
  Hint(at);
}

void TcpNode::OnHubLost(Uplink* uplink, const std::string& why, const std::optional<Redirect>& elsewhere) {
  std::vector<Endpoint> hints;
  if (elsewhere && elsewhere->hub) hints.push_back(SeenFrom(uplink->at(), *elsewhere->hub));
  if (uplink == doubted_.get()) {
    doubted_.reset();
    if (!hints.empty()) Hint(hints.front());
  } else {
    MissHub(why, std::move(hints));
    uplink_.reset();
  }
  if (elsewhere && elsewhere->hub) search_.reported_ns = Now();
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
  succeeds_own_hub_ = false;
  ++context_.counters.joined;
  context_.mailbox->Deliver({Type::kJoined, uplink_->welcome().node, uplink_->term(), {}, uplink_->guessable()});
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

void TcpNode::OnSuccessionList(const SuccessionList& list) {
  term_ = std::max(term_, list.term);
  successors_ = list.successors;
  for (Successor& successor : successors_) successor.at = SeenFrom(uplink_->at(), successor.at);
  peers_ns_ = memory_ns_ = 0;
}

}  // namespace ncclwatch::exchange
