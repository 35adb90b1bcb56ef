#include "analyzer/doctor/ranks/member.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <optional>
#include <thread>

#include "analyzer/console/units.h"
#include "analyzer/doctor/checks/network.h"
#include "analyzer/doctor/ranks/echo_server.h"
#include "analyzer/doctor/ranks/meeting.h"
#include "ncclwatch/nanoseconds.h"
#include "watchdog/rundir/process.h"

namespace ncclwatch::doctor {
namespace {

using analyzer::MonotonicNow;

constexpr std::int64_t kDial_ns = 3 * kSecond, kSend_ns = 5 * kSecond, kTryAll_ns = 50 * kSecond;
constexpr std::int64_t kMessage_ns = 240 * kSecond;  // rank 0 asks one host after the other
constexpr int kMostMessages = 64;
constexpr std::uint64_t kFirstBytes = 1u << 20;
constexpr double kTransfer_s = 0.5;

// As many bytes as take about half a second.
Trial TryBandwidth(const Peer& peer, const Credentials& credentials) {
  const Trial first = Try(peer.address, peer.port, credentials, 8, kFirstBytes);
  if (!first.error.empty()) return first;
  const double bytes =
      std::clamp(kTransfer_s * first.bytes_per_s, double{kFirstBytes}, double{EchoRequest::kMostBytes});
  return Try(peer.address, peer.port, credentials, 8, static_cast<std::uint64_t>(bytes));
}

// Rank 0 may start later than this rank, and another port may be the right one.
std::unique_ptr<Channel> FindRank0(const MeetingPlace& place, const Credentials& credentials, std::int64_t until_ns,
                                   std::string* why) {
  for (std::size_t turn = 0; MonotonicNow() < until_ns && !place.hosts.empty() && !place.ports.empty(); ++turn) {
    const std::string& host = place.hosts[turn % place.hosts.size()];
    const std::uint16_t port = place.ports[turn / place.hosts.size() % place.ports.size()];
    // What was reached and refused tells more than the ports at which nobody listens.
    std::string why_here;
    const std::int64_t dial_until = std::min(until_ns, MonotonicNow() + kDial_ns);
    if (auto channel = Channel::Dial(host, port, credentials, dial_until, &why_here)) return channel;
    if (turn == 0 || why_here.find(strerror(ECONNREFUSED)) == std::string::npos) *why = why_here;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return nullptr;
}

bool ServeRank0(Channel* channel, const Credentials& credentials, int rank, std::int64_t wait_ns, std::string* why) {
  const auto send = [&](Kind kind, const std::string& payload) {
    return channel->Send(kind, payload, MonotonicNow() + kSend_ns);
  };
  *why = "rank 0 went away";
  for (int i = 0; i < kMostMessages; ++i) {
    const std::optional<Message> message = channel->Receive(MonotonicNow() + wait_ns + kMessage_ns);
    if (!message) return false;
    switch (message->kind) {
      case Kind::kWelcome: break;
      case Kind::kEnd: return true;
      case Kind::kPing:
        if (!send(Kind::kPong, Pong{RealNow()}.Encode())) return false;
        break;
      case Kind::kTry: {
        const std::optional<TryRequest> request = TryRequest::Decode(message->payload);
        if (!request || !send(Kind::kAttempts, EncodeAttempts(TryAll(*request, credentials, rank)))) return false;
        break;
      }
      default: *why = "rank 0 sent a message that makes no sense"; return false;
    }
  }
  *why = "rank 0 sent too many messages";
  return false;
}

}  // namespace

double RealNow() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<double>(now.tv_sec) + InSeconds(now.tv_nsec);
}

std::string OwnAddress(const settings::BindAddress& bind) {
  if (std::string own = OwnAddressIn(bind); !own.empty()) return own;
  for (const Interface& one : Interfaces())
    if (exchange::Endpoint::Parse(one.address, 0)) return one.address;
  return "";
}

std::vector<Attempt> TryAll(const TryRequest& request, const Credentials& credentials, int from) {
  std::vector<Attempt> attempts;
  const std::int64_t until = MonotonicNow() + kTryAll_ns;
  for (const Peer& peer : request.peers) {
    if (MonotonicNow() >= until) {
      attempts.push_back({from, peer.rank, "not tried: the others took too long", 0, 0, {}});
      continue;
    }
    const Trial trial =
        request.active ? TryBandwidth(peer, credentials) : Try(peer.address, peer.port, credentials, 8, 0);
    Attempt attempt{from, peer.rank, trial.error, trial.round_trip_s, trial.bytes_per_s, {}};
    for (std::uint32_t size = 8; request.active && trial.error.empty() && size <= EchoRequest::kMostSize; size *= 32)
      if (const Trial step = Try(peer.address, peer.port, credentials, size, 0); step.error.empty())
        attempt.ladder.emplace_back(size, step.round_trip_s);
    attempts.push_back(std::move(attempt));
  }
  return attempts;
}

bool ReportToRank0(const MeetingPlace& place, const rundir::Place& ranks, Report own, std::int64_t wait_ns,
                   std::string* why) {
  *why = place.refused.empty() ? "the launcher tells no address of rank 0" : place.refused;
  if (!place.refused.empty()) return false;
  const Credentials credentials{exchange::Keys(place.tokens), place.bind};
  std::optional<EchoServer> echo;
  if (!place.one_host) echo.emplace(credentials);
  const Hello hello{ranks.rank, rundir::HostName(), OwnAddress(place.bind), echo ? echo->port() : std::uint16_t{0},
                    std::move(own)};
  const std::string encoded = hello.Encode();
  if (encoded.size() > exchange::kMaxPayload) {
    *why =
        fmt::format("the report of this rank has {} bytes, and {} are possible", encoded.size(), exchange::kMaxPayload);
    return false;
  }
  const std::int64_t until = MonotonicNow() + wait_ns;
  while (const auto channel = FindRank0(place, credentials, until, why)) {
    // If rank 0 drops this connection before it has read the report, another one may do.
    const bool sent = channel->Send(Kind::kHello, encoded, MonotonicNow() + kSend_ns);
    const std::optional<Message> welcome = sent ? channel->Receive(MonotonicNow() + kSend_ns) : std::nullopt;
    if (welcome && welcome->kind == Kind::kWelcome)
      return ServeRank0(channel.get(), credentials, ranks.rank, wait_ns, why);
    *why = "rank 0 did not take the report of this rank";
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return false;
}

}  // namespace ncclwatch::doctor
