#include "analyzer/doctor/ranks/channel.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "analyzer/console/units.h"

namespace ncclwatch::doctor {

using exchange::Session;

std::unique_ptr<Channel> Channel::Make(Socket socket, Session::Side side, const exchange::Keys& keys) {
  const std::optional<exchange::Nonce> nonce = exchange::NewNonce();
  return nonce ? std::unique_ptr<Channel>(new Channel(std::move(socket), side, keys, *nonce)) : nullptr;
}

std::unique_ptr<Channel> Channel::Dial(const std::string& host, std::uint16_t port, const Credentials& credentials,
                                       std::int64_t until_ns, std::string* why) {
  const auto fail = [&](std::string_view text) {
    *why = fmt::format("{}:{}: {}", host, port, text);
    return nullptr;
  };
  Socket socket = Connect(host, port, credentials.bind, until_ns);
  if (!socket) return fail(errno == ETIMEDOUT ? "no answer" : strerror(errno));
  std::unique_ptr<Channel> channel = Make(std::move(socket), Session::Side::kDialer, credentials.keys);
  if (!channel) return fail("the kernel has no random bytes");
  bool goes_on = channel->Flush();
  while (goes_on && !channel->proven()) {
    if (!Await(channel->socket(), POLLIN, until_ns))
      return fail("it was reached, but did not prove in time that it belongs to this job");
    goes_on = channel->Pump();
  }
  if (channel->proven()) return channel;
  const std::string& refused = channel->session_.why();
  return fail(refused.empty() ? "it refused this rank: it has another token, or is no rank of this job" : refused);
}

// At most a few hundred bytes, for which a socket always has room: who does not read them is not waited for.
bool Channel::Flush() {
  const std::string bytes = session_.TakeOutput();
  return bytes.empty() ||
         send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

bool Channel::Pump() {
  std::array<char, 65536> block;
  const ssize_t count = recv(socket_.get(), block.data(), block.size(), 0);
  if (count < 0) return errno == EAGAIN || errno == EINTR;
  if (count == 0) return errno = ECONNRESET, false;
  const bool holds = session_.Feed(std::string_view(block.data(), static_cast<std::size_t>(count)));
  return Flush() && holds;
}

std::optional<Message> Channel::Take() {
  std::optional<exchange::Frame> frame = session_.Take();
  if (!frame) return std::nullopt;
  return Message{static_cast<Kind>(frame->kind), std::move(frame->payload)};
}

std::optional<Message> Channel::Receive(std::int64_t until_ns) {
  for (bool goes_on = true;; goes_on = Pump()) {
    if (std::optional<Message> message = Take()) return message;
    if (!goes_on || analyzer::MonotonicNow() >= until_ns || !Await(socket_, POLLIN, until_ns)) return std::nullopt;
  }
}

bool Channel::Send(Kind kind, std::string_view payload, std::int64_t until_ns) {
  if (!proven() || payload.size() > exchange::kMaxPayload) return false;
  std::string bytes;
  session_.MessageAuthenticator(static_cast<std::uint16_t>(kind), payload, {}, &bytes);
  return SendAll(socket_, bytes.data(), bytes.size(), until_ns);
}

}  // namespace ncclwatch::doctor
