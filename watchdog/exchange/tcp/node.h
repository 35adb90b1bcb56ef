// One leader over embedded TCP: looks for a hub, is a member, or is the hub. One thread.
//
// Looking: it calls where a hub may be: the hub that was lost, the place where all meet, those next in line. Whoever
// answers is the hub, knows it, or looks for one too. Who listens at the meeting place becomes hub at once; who was a
// member before becomes it when those before it in line have had their time and no sign of life came from them. A
// leader that never had a hub waits for one for ever.
//
// Two hubs, after the network was cut, find one another as soon as it is whole again, because hubs call those whom they
// miss. The one with the lesser claim gives way and sends its members to the other.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "watchdog/exchange/net/resolver.h"
#include "watchdog/exchange/protocol/node.h"
#include "watchdog/exchange/tcp/acceptor.h"
#include "watchdog/exchange/tcp/context.h"
#include "watchdog/exchange/tcp/dialer.h"
#include "watchdog/exchange/tcp/hub.h"
#include "watchdog/exchange/tcp/memory.h"
#include "watchdog/exchange/tcp/uplink.h"

namespace ncclwatch::exchange {

// The place where the leaders of a job meet at the start: the address that all were given. Whoever owns it listens
// there, as the hub or to say where the hub is.

class Rendezvous {
 public:
  Rendezvous(TcpContext* context, Acceptor* acceptor);

  // alone_ns: for how long this node has looked for a hub in vain, 0: it has one. Tries to listen if the place is ours;
  // after a while without a hub at the next port, should a stranger (or a stopped leader of this node) have this one.
  void Tick(std::int64_t now_ns, std::int64_t alone_ns);

  bool listening() const { return port_ != 0; }
  // Where others may be found.
  const std::vector<Endpoint>& others() const { return others_; }
  // Why there is nobody to be called, for people; empty: there is.
  std::string Trouble() const;

 private:
  bool IsOurs() const;
  void TryToListen(std::int64_t now_ns, std::int64_t alone_ns);
  void Update();
  void SayElsewhere(const Endpoint& called);

  TcpContext* const context_;
  Acceptor* const acceptor_;
  Resolver resolver_;
  std::vector<std::uint16_t> ports_;
  std::uint16_t port_ = 0;
  std::vector<Endpoint> others_;
  bool own_ = false;  // one of the addresses is an interface's of this node
  std::int64_t looked_ns_ = 0, tried_ns_ = 0;
  int listen_error_ = 0;
  bool said_elsewhere_ = false;
};

class TcpNode final : public Node, private Acceptor::Handler, private Dialer::Handler, private Uplink::Handler {
 public:
  TcpNode(const Setup& setup, Loop* loop, Mailbox* mailbox);
  ~TcpNode() override;

  void Tick(std::int64_t now_ns) override;
  std::int64_t Due_ns() const override;
  void Leave(std::int64_t now_ns) override;
  bool Idle() const override;

 private:
  // A hub that was lost, or never found.
  struct Search {
    std::int64_t since_ns = 0;
    std::string lost_node;                   // the hub before
    std::vector<Endpoint> hints;             // where it was, and where others say that one is
    std::map<Endpoint, std::int64_t> alive;  // who looks for one like us, or has not missed it yet: seen last
    std::int64_t reported_ns = 0;            // of another hub, last
    std::int64_t trust_ns = 0;               // nobody has seen the hub before go: it has so long to be found
    bool said = false;
  };

  void SayDeaf(int error);
  void Look(std::int64_t now_ns);
  void BeginSearch(std::int64_t now_ns, const std::string& lost_node, std::vector<Endpoint> hints);
  void LookForHub(std::int64_t now_ns);
  void LookForRivals();
  bool MayLead(std::int64_t now_ns) const;
  std::size_t PlaceInLine() const;
  bool BetterOneLives(std::size_t place, std::int64_t now_ns) const;
  void BecomeHub();
  void FoundHub();
  void MissHub(const std::string& why, std::vector<Endpoint> hints);
  void GiveWay(const Endpoint& to, const std::string& node);
  void Answer(std::unique_ptr<Connection> connection, Kind kind, std::string payload);
  void Hint(const Endpoint& at);
  void Lives(const Endpoint& at);
  void SayTrouble(std::int64_t now_ns);
  void DrainMailbox();
  void Publish(std::int64_t now_ns);
  void PublishPeers(std::int64_t now_ns);
  void KeepMemory(std::int64_t now_ns);

  void OnJoin(std::unique_ptr<Connection> connection, const Join& join) override;
  Join OwnJoin() override;
  void OnWelcome(std::unique_ptr<Connection> connection, const Welcome& welcome) override;
  void OnElsewhere(const Endpoint& from, const Redirect& elsewhere) override;
  void OnYield(const Endpoint&) override {}  // its members come by themselves
  void OnHubLost(Uplink* uplink, const std::string& why, const std::optional<Redirect>& elsewhere) override;
  void OnHubSilent(Uplink* uplink) override;
  void OnHubHeard(Uplink* uplink) override;
  void OnSuccessionList(const SuccessionList& list) override;

  TcpContext context_;
  Acceptor acceptor_;
  Dialer dialer_;
  Rendezvous meeting_;
  // At most one of the two; neither: looking.
  std::unique_ptr<Uplink> uplink_;
  std::unique_ptr<Hub> hub_;
  std::unique_ptr<Uplink> doubted_;  // while looking: to the hub before, which may be heard again
  Search search_;
  std::optional<AdaptiveTimeout> hub_patience_;  // with the hub before

  std::uint32_t searches_ = 0;
  std::uint64_t term_ = 0;             // the latest seen, 0: never had a hub
  std::vector<Successor> successors_;  // the last line
  bool succeeds_own_hub_ = false;      // the leader before us on this node was hub, and we listen where it did
  bool leaving_ = false;
  std::int64_t ticked_ns_ = 0, looked_ns_ = 0, peers_ns_ = 0, memory_ns_ = 0;
  std::string memory_;  // as it was kept last
};

}  // namespace ncclwatch::exchange
