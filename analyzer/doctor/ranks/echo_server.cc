#include "analyzer/doctor/ranks/echo_server.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "analyzer/console/units.h"
#include "ncclwatch/nanoseconds.h"

namespace ncclwatch::doctor {
namespace {

using analyzer::MonotonicNow;

constexpr std::int64_t kTurn_ns = kSecond / 20;
constexpr std::int64_t kConnect_ns = 3 * kSecond, kTrial_ns = 10 * kSecond;  // all of a trial
constexpr std::size_t kMostAtOnce = 32;                                      // twice as many as try a rank at once
constexpr std::size_t kBlock = EchoRequest::kMostSize;
constexpr std::uint32_t kRoundTrips = 5;

// Of the messages only the first is sealed: encryption would be the slowest part of what is measured.
void Answer(Channel* channel, const EchoRequest& request) {
  const std::int64_t until = MonotonicNow() + kTrial_ns;
  const Socket& socket = channel->socket();
  std::vector<char> block(kBlock);
  if (channel->HasMore() || !channel->Send(Kind::kReady, {}, until)) return;
  for (std::uint32_t i = 0; i < request.rounds; ++i)
    if (!ReceiveAll(socket, block.data(), request.size, until) || !SendAll(socket, block.data(), request.size, until))
      return;
  for (std::uint64_t left = request.bytes; left > 0;) {
    const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(left, kBlock));
    if (!ReceiveAll(socket, block.data(), size, until)) return;
    left -= size;
  }
  SendAll(socket, block.data(), 1, until);
}

}  // namespace

EchoServer::EchoServer(const Credentials& credentials)
    : door_(Listen(0, credentials.bind), credentials.keys), thread_([this] { Run(); }) {}

EchoServer::~EchoServer() {
  ends_ = true;
  thread_.join();
}

void EchoServer::Serve(Arrival arrival) {
  std::erase_if(answering_, [](Answering& one) {
    if (one.done) one.thread.join();
    return one.done.load();
  });
  if (arrival.first.kind != Kind::kEcho || answering_.size() >= kMostAtOnce) return;
  const std::optional<EchoRequest> request = EchoRequest::Decode(arrival.first.payload);
  if (!request) return;
  Answering& one = answering_.emplace_back();
  one.channel = std::move(arrival.channel);
  one.thread = std::thread([&one, request = *request] {
    Answer(one.channel.get(), request);
    shutdown(one.channel->socket().get(), SHUT_RDWR);
    one.done = true;
  });
}

void EchoServer::Run() {
  while (!ends_ && door_)
    if (std::optional<Arrival> arrival = door_.Next(MonotonicNow() + kTurn_ns)) Serve(*std::move(arrival));
  for (Answering& one : answering_) shutdown(one.channel->socket().get(), SHUT_RDWR);
  for (Answering& one : answering_) one.thread.join();
}

Trial Try(const std::string& address, std::uint16_t port, const Credentials& credentials, std::uint32_t size,
          std::uint64_t bytes) {
  Trial trial;
  const auto fail = [&] {
    trial.error = errno == ETIMEDOUT ? "no answer" : strerror(errno);
    return trial;
  };
  const auto channel = Channel::Dial(address, port, credentials, MonotonicNow() + kConnect_ns, &trial.error);
  if (!channel) return trial;
  const std::int64_t until = MonotonicNow() + kTrial_ns;
  const Socket& to = channel->socket();
  std::vector<char> block(kBlock);
  if (!channel->Send(Kind::kEcho, EchoRequest{kRoundTrips, size, bytes}.Encode(), until)) return fail();
  const std::optional<Message> ready = channel->Receive(until);
  if (!ready || ready->kind != Kind::kReady) return fail();
  std::int64_t best = INT64_MAX;
  for (std::uint32_t i = 0; i < kRoundTrips; ++i) {
    const std::int64_t start = MonotonicNow();
    if (!SendAll(to, block.data(), size, until) || !ReceiveAll(to, block.data(), size, until)) return fail();
    best = std::min(best, MonotonicNow() - start);
  }
  trial.round_trip_s = InSeconds(best);
  const std::int64_t start = MonotonicNow();
  for (std::uint64_t left = bytes; left > 0;) {
    const auto part = static_cast<std::size_t>(std::min<std::uint64_t>(left, kBlock));
    if (!SendAll(to, block.data(), part, until)) return fail();
    left -= part;
  }
  if (!ReceiveAll(to, block.data(), 1, until)) return fail();
  if (bytes > 0) trial.bytes_per_s = static_cast<double>(bytes) / InSeconds(MonotonicNow() - start);
  return trial;
}

}  // namespace ncclwatch::doctor
