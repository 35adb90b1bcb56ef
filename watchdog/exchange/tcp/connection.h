// One TCP connection between two leaders: socket, session, what waits to be sent.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "watchdog/exchange/net/endpoint.h"
#include "watchdog/exchange/net/loop.h"
#include "watchdog/exchange/protocol/bounded_queue.h"
#include "watchdog/exchange/protocol/session.h"

namespace ncclwatch::exchange {

class Connection final : public Source {
 public:
  // Told from within Ready or Flush. It may bury the connection in any of them.
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void OnProven(Connection* connection) = 0;
    virtual void OnFrame(Connection* connection, Frame frame) = 0;
    // Ended by the peer, the network or the session: what for. Not after Close().
    virtual void OnEnd(Connection* connection, const std::string& why) = 0;
  };

  // Null: no descriptor, no random bytes, or refused at once. keys and counters must outlive it.
  static std::unique_ptr<Connection> Dial(Loop* loop, const Keys* keys, Counters* counters, const Endpoint& to,
                                          const std::optional<Endpoint>& source, Owner* owner);
  static std::unique_ptr<Connection> Accept(Loop* loop, const Keys* keys, Counters* counters, int fd,
                                            const Endpoint& from, Owner* owner);
  ~Connection() override;

  void SetOwner(Owner* owner) { owner_ = owner; }
  // False: no room, or the connection has ended.
  bool Send(Parcel parcel);
  bool Send(std::uint16_t kind, std::string head) { return Send(Parcel{kind, false, std::move(head), nullptr}); }
  void Close();

  bool proven() const { return session_.proven(); }
  bool plausible() const { return session_.plausible(); }
  bool guessable() const { return session_.guessable(); }
  bool other_version() const { return session_.other_version(); }
  bool connected() const { return fd_ >= 0 && !connecting_; }
  bool was_connected() const { return !connecting_; }
  bool closed() const { return fd_ < 0; }
  bool idle() const { return outbox_.empty() && wire_.empty(); }  // nothing waits to be sent
  std::size_t waiting() const { return outbox_.size(); }
  const Endpoint& remote() const { return remote_; }
  std::int64_t born_ns() const { return born_ns_; }
  std::int64_t heard_ns() const { return heard_ns_; }  // proven bytes came last
  std::int64_t moved_ns() const { return moved_ns_; }  // bytes left last, or nothing waited

  void Ready(std::uint32_t events) override;
  void Flush() override;

 private:
  Connection(Loop* loop, const Keys* keys, Counters* counters, Session::Side side, const Nonce& nonce, int fd,
             const Endpoint& remote, Owner* owner);
  static std::unique_ptr<Connection> Make(Loop* loop, const Keys* keys, Counters* counters, Session::Side side, int fd,
                                          const Endpoint& remote, Owner* owner);
  void Read();
  bool Take(std::string_view bytes);
  void Fill();
  void Want(bool writing);
  void End(const std::string& why);

  Loop* const loop_;
  Counters* const counters_;
  Session session_;
  int fd_;
  const Endpoint remote_;
  Owner* owner_;
  bool connecting_;
  bool writing_ = false;
  bool flush_asked_ = false;
  BoundedQueue<Parcel> outbox_;
  std::string wire_;      // sealed
  std::size_t gone_ = 0;  // of wire_
  std::size_t held_ = 0;  // of loop_->buffered
  std::int64_t born_ns_, heard_ns_, moved_ns_;
};

}  // namespace ncclwatch::exchange
