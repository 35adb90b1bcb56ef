// What the hub does for its members: takes them in, passes their messages on, answers their pings, tells them who is
// next in line, and lets go of those that are silent for too long. One thread.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "watchdog/exchange/protocol/adaptive_timeout.h"
#include "watchdog/exchange/protocol/clock_filter.h"
#include "watchdog/exchange/protocol/wire.h"
#include "watchdog/exchange/tcp/connection.h"
#include "watchdog/exchange/tcp/context.h"

namespace ncclwatch::exchange {

class Hub final : public Connection::Owner {
 public:
  // So that no member, nor many, can make this process grow without end.
  struct Bounds {
    std::size_t members = 8192;        // known, living or not
    std::size_t relayed = 256u << 20;  // bytes of members' messages that are held, all together
  };

  Hub(TcpContext* context, std::uint64_t term) : Hub(context, term, Bounds()) {}
  Hub(TcpContext* context, std::uint64_t term, const Bounds& bounds)
      : context_(context), bounds_(bounds), term_(term) {}
  ~Hub() override;

  void Adopt(std::unique_ptr<Connection> connection, const Join& join, std::int64_t now_ns);
  void SendOwn(const Outgoing& outgoing);
  void Tick(std::int64_t now_ns);
  std::int64_t Due_ns() const { return due_ns_; }
  // Tells every member, and lets it go.
  void Dismiss(const Redirect& elsewhere);
  void SayLeave();
  bool Idle() const;  // nothing waits to be sent

  Claim claim() const;
  std::uint64_t term() const { return term_; }
  SuccessionList CurrentSuccession() const;
  std::vector<Peer> Peers(std::int64_t now_ns) const;
  std::size_t relayed() const { return *relayed_; }  // bytes
  bool Has(const Endpoint& at) const;
  bool HasProven() const;                                        // a member by a token that nobody can guess
  bool TakeChanged() { return std::exchange(changed_, false); }  // somebody came or went

 private:
  struct Member {
    std::unique_ptr<Connection> connection;  // null: gone
    bool doubted = false;                    // connected, but silent for so long that it is taken for gone
    std::uint64_t incarnation = 0;
    std::uint32_t search = 0;
    std::uint32_t order = 0;
    Endpoint at;
    std::string host;
    std::optional<AdaptiveTimeout> patience;
    ClockOffset offset;  // of its clock against ours
    std::int64_t offset_at_ns = 0;
  };
  using Members = std::map<std::string, Member>;
  static bool Guessable(const Member& member) { return !member.connection || member.connection->guessable(); }
  static bool IsThere(const Member& member) { return member.connection && !member.doubted; }

  void Suspect(Members::iterator member);
  void Unsuspect(Members::iterator member);
  void Remove(Members::iterator member, const std::string& why);
  std::unique_ptr<Connection> Release(Members::iterator member, const std::string& why);
  bool HasRoom();  // for one more; who is gone is forgotten for it
  std::shared_ptr<const std::string> Counted(std::string_view body);
  std::uint32_t PingMs() const;
  void Route(const std::string& from, const Envelope& envelope, std::shared_ptr<const std::string> body,
             bool guessable);
  void SendTo(Member* member, const std::string& from, Type type, const std::shared_ptr<const std::string>& body);
  void OnPing(Members::iterator member, const Ping& ping);
  void OnMessage(Members::iterator member, const Frame& frame);
  void OnProven(Connection*) override {}
  void OnFrame(Connection* connection, Frame frame) override;
  void OnEnd(Connection* connection, const std::string& why) override;

  TcpContext* const context_;
  const Bounds bounds_;
  std::uint64_t term_;
  Members members_;                                                         // those that are gone too
  std::unordered_map<const Connection*, Members::iterator> by_connection_;  // the doubted ones too
  std::size_t doubted_ = 0;
  const std::shared_ptr<std::size_t> relayed_ = std::make_shared<std::size_t>(0);  // outlives the hub with its messages
  std::uint32_t next_order_ = 1;
  bool changed_ = false, line_stale_ = true;
  std::string succession_said_;
  std::int64_t due_ns_ = 0;
};

}  // namespace ncclwatch::exchange
