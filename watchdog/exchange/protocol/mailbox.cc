#include "watchdog/exchange/protocol/mailbox.h"

#include <utility>

namespace ncclwatch::exchange {

bool Mailbox::Send(std::string_view to, Type type, std::string body) {
  const bool legal =
      static_cast<std::uint16_t>(type) >= kFirstOfLeaders && body.size() <= kMaxBody && to.size() <= kMaxName;
  Outgoing outgoing{std::string(to.substr(0, kMaxName)), type, MayBeDropped(type), nullptr};
  if (legal) outgoing.body = std::make_shared<const std::string>(std::move(body));
  const std::lock_guard lock(mutex_);
  if (legal && outgoing_.Push(std::move(outgoing), &dropped_)) return true;
  ++refused_;
  return false;
}

std::optional<Message> Mailbox::Receive() {
  const std::lock_guard lock(mutex_);
  std::optional<Incoming> incoming = incoming_.Pop();
  if (!incoming) return std::nullopt;
  return std::move(incoming->message);
}

Status Mailbox::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

std::vector<Peer> Mailbox::Peers() const {
  const std::lock_guard lock(mutex_);
  return peers_;
}

Counters Mailbox::counters() const {
  const std::lock_guard lock(mutex_);
  Counters counters = counters_;
  counters.summaries_dropped += dropped_;
  counters.messages_refused += refused_;
  return counters;
}

std::vector<std::string> Mailbox::TakeLines() {
  const std::lock_guard lock(mutex_);
  return std::exchange(lines_, {});
}

std::optional<Outgoing> Mailbox::TakeOutgoing() {
  const std::lock_guard lock(mutex_);
  return outgoing_.Pop();
}

void Mailbox::Deliver(Message message) {
  const bool droppable = MayBeDropped(message.type);
  const std::lock_guard lock(mutex_);
  if (!incoming_.Push({std::move(message), droppable}, &dropped_)) ++refused_;
}

void Mailbox::Publish(const Status& status, const Counters& counters) {
  const std::lock_guard lock(mutex_);
  status_ = status;
  counters_ = counters;
}

void Mailbox::PublishPeers(std::vector<Peer> peers) {
  const std::lock_guard lock(mutex_);
  peers_.swap(peers);  // the old ones are freed after the lock
}

void Mailbox::Say(std::string line) {
  const std::lock_guard lock(mutex_);
  if (lines_.size() < kMostLines) lines_.push_back(std::move(line));
}

}  // namespace ncclwatch::exchange
