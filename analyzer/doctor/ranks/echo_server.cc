#include "analyzer/doctor/ranks/echo_server.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "analyzer/console/units.h"

namespace ncclwatch::doctor {
namespace {

using analyzer::MonotonicNow;

constexpr std::int64_t kPatience_ns = 5'000'000'000, kTurn_ns = 50'000'000;
constexpr std::size_t kBlock = 1u << 18;
constexpr int kRoundTrips = 5;
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30;

struct Request {  // in the byte order of the host: all ranks run one build
  std::uint32_t round_trips = 0, size = 0;
  std::uint64_t bytes = 0;
};

void Answer(const Socket& from) {
  Request request;
  if (!ReceiveAll(from, &request, sizeof request, kPatience_ns) || request.size > kBlock || request.bytes > kMostBytes)
    return;
  std::vector<char> block(kBlock);
  for (std::uint32_t i = 0; i < request.round_trips; ++i)
    if (!ReceiveAll(from, block.data(), request.size, kPatience_ns) ||
        !SendAll(from, block.data(), request.size, kPatience_ns))
      return;
  for (std::uint64_t left = request.bytes; left > 0;) {
    const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(left, kBlock));
    if (!ReceiveAll(from, block.data(), size, kPatience_ns)) return;
    left -= size;
  }
  SendAll(from, block.data(), 1, kPatience_ns);
}

double Seconds(std::int64_t ns) { return static_cast<double>(ns) / 1e9; }

}  // namespace

EchoServer::EchoServer() : listener_(Listen(0)), port_(listener_ ? PortOf(listener_) : 0), thread_([this] { Run(); }) {}

EchoServer::~EchoServer() {
  ends_ = true;
  thread_.join();
}

void EchoServer::Run() {
  std::vector<std::thread> answering;
  while (!ends_ && listener_)
    if (Socket from = Accept(listener_, kTurn_ns)) answering.emplace_back([from = std::move(from)] { Answer(from); });
  for (std::thread& one : answering) one.join();
}

Trial Try(const std::string& address, std::uint16_t port, std::size_t size, std::uint64_t bytes) {
  Trial trial;
  const auto fail = [&] {
    trial.error = errno == ETIMEDOUT ? "no answer" : strerror(errno);
    return trial;
  };
  constexpr std::int64_t kConnect_ns = 3'000'000'000;
  const Socket to = Connect(address, port, kConnect_ns);
  if (!to) return fail();
  const Request request{kRoundTrips, static_cast<std::uint32_t>(size), bytes};
  std::vector<char> block(std::max(kBlock, size));
  if (!SendAll(to, &request, sizeof request, kPatience_ns)) return fail();
  std::int64_t best = INT64_MAX;
  for (int i = 0; i < kRoundTrips; ++i) {
    const std::int64_t start = MonotonicNow();
    if (!SendAll(to, block.data(), size, kPatience_ns) || !ReceiveAll(to, block.data(), size, kPatience_ns))
      return fail();
    best = std::min(best, MonotonicNow() - start);
  }
  trial.round_trip_s = Seconds(best);
  const std::int64_t start = MonotonicNow();
  for (std::uint64_t left = bytes; left > 0;) {
    const auto part = static_cast<std::size_t>(std::min<std::uint64_t>(left, kBlock));
    if (!SendAll(to, block.data(), part, kPatience_ns)) return fail();
    left -= part;
  }
  if (!ReceiveAll(to, block.data(), 1, kPatience_ns)) return fail();
  if (bytes > 0) trial.bytes_per_s = static_cast<double>(bytes) / Seconds(MonotonicNow() - start);
  return trial;
}

}  // namespace ncclwatch::doctor
