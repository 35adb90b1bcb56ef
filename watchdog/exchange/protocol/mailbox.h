// Between the thread of the exchange and its users: what is to be sent, what has come, and how things stand. The one
// place with a lock; it is held for copying only.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "watchdog/exchange/protocol/bounded_queue.h"
#include "watchdog/exchange/protocol/exchange.h"

namespace ncclwatch::exchange {

struct Outgoing {
  std::string to;
  Type type = Type::kSummary;
  bool droppable = false;
  std::shared_ptr<const std::string> body;
  std::size_t bytes() const { return to.size() + body->size() + 64; }
};

class Mailbox {
 public:
  // For users.
  bool Send(std::string_view to, Type type, std::string body);
  std::optional<Message> Receive();
  Status status() const;
  std::vector<Peer> Peers() const;
  Counters counters() const;
  std::vector<std::string> TakeLines();

  // For the thread of the exchange.
  std::optional<Outgoing> TakeOutgoing();
  void Deliver(Message message);
  void Publish(const Status& status, const Counters& counters);
  void PublishPeers(std::vector<Peer> peers);
  void Say(std::string line);

 private:
  struct Incoming {
    Message message;
    bool droppable = false;
    std::size_t bytes() const { return message.body.size() + message.from.size() + 64; }
  };

  // For some seconds without a hub, or with a user that does not look.
  static constexpr std::size_t kMostOutgoing = 1024, kMostOutgoingBytes = 8u << 20;
  static constexpr std::size_t kMostIncoming = 16384, kMostIncomingBytes = 64u << 20;
  static constexpr std::size_t kMostLines = 32;

  mutable std::mutex mutex_;
  BoundedQueue<Outgoing> outgoing_{kMostOutgoing, kMostOutgoingBytes};
  BoundedQueue<Incoming> incoming_{kMostIncoming, kMostIncomingBytes};
  std::uint64_t dropped_ = 0, refused_ = 0;  // here; counters_ has the thread's
  Status status_;
  Counters counters_;
  std::vector<Peer> peers_;
  std::vector<std::string> lines_;
};

}  // namespace ncclwatch::exchange
