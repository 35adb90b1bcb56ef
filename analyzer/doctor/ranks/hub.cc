// Rank 0 of a meeting.
#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "analyzer/console/units.h"
#include "analyzer/doctor/ranks/door.h"
#include "analyzer/doctor/ranks/echo_server.h"
#include "analyzer/doctor/ranks/meeting.h"
#include "analyzer/doctor/ranks/member.h"
#include "ncclwatch/nanoseconds.h"
#include "watchdog/rundir/process.h"

namespace ncclwatch::doctor {
namespace {

using analyzer::MonotonicNow;

constexpr std::int64_t kSendToMember_ns = 2 * kSecond, kPong_ns = 2 * kSecond, kAttempts_ns = 60 * kSecond;
constexpr int kPings = 8;

class Hub {
 public:
  Hub(const MeetingPlace& place, const rundir::Place& ranks, bool active)
      : place_(place),
        ranks_(ranks),
        active_(active),
        credentials_{exchange::Keys(place.tokens), place.bind},
        door_(ListenAtPlace(), credentials_.keys) {
    if (!place_.one_host) echo_.emplace(credentials_);
  }

  Gathered Run(Report own, std::int64_t wait_ns) {
    Gathered gathered;
    AddSelf(std::move(own));
    if (!place_.refused.empty())
      gathered.why_not = place_.refused;
    else if (place_.ports.empty())
      gathered.why_not = "the launcher tells no address of rank 0";
    else if (!door_)
      gathered.why_not = fmt::format("rank 0 cannot listen at the port of {}: {}", place_.source, strerror(error_));
    else
      gathered.where = fmt::format("{}:{} ({})", rundir::HostName(), door_.port(), place_.source);
    TakeIn(MonotonicNow() + wait_ns);
    gathered.strangers = door_.strangers();
    MeasureClocks(&gathered);
    TryHosts(&gathered);
    for (auto& [rank, member] : members_) {
      Send(&member, Kind::kEnd, "");
      if (member.lost) gathered.lost.push_back(rank);
    }
    for (int rank = 0; rank < ranks_.world_size; ++rank)
      if (!members_.contains(rank)) gathered.missing.push_back(rank);
    return gathered;
  }

 private:
  Socket ListenAtPlace() {
    if (!place_.refused.empty()) return Socket();
    for (const std::uint16_t port : place_.ports) {
      if (Socket listener = Listen(port, place_.bind)) return listener;
      error_ = errno;
    }
    return Socket();
  }

  void AddSelf(Report own) {
    Member self;
    self.rank = ranks_.rank;
    self.host = rundir::HostName();
    self.address = OwnAddress(place_.bind);
    self.port = echo_ ? echo_->port() : 0;
    self.report = std::move(own);
    members_.emplace(self.rank, std::move(self));
  }

  void TakeIn(std::int64_t until_ns) {
    while (members_.size() < static_cast<std::size_t>(ranks_.world_size) && MonotonicNow() < until_ns) {
      std::optional<Arrival> arrival = door_.Next(until_ns);
      if (!arrival) return;
      Welcome(*std::move(arrival));
    }
  }

  void Welcome(Arrival arrival) {
    std::optional<Hello> hello;
    if (arrival.first.kind == Kind::kHello) hello = Hello::Decode(arrival.first.payload, ranks_.world_size);
    if (!hello || hello->rank == ranks_.rank) return;
    Member member;
    member.channel = std::move(arrival.channel);
    member.rank = hello->rank;
    member.host = std::move(hello->host);
    member.address = hello->address.empty() ? PeerOf(member.channel->socket()) : std::move(hello->address);
    member.port = hello->port;
    member.report = std::move(hello->report);
    member.guessable = member.channel->guessable();
    const auto known = members_.find(member.rank);
    // A stranger may guess a token, and does not take the place of a rank that has a secret.
    if (known != members_.end() && member.guessable && !known->second.guessable) return;
    if (!member.channel->Send(Kind::kWelcome, "", MonotonicNow() + kSendToMember_ns)) return;
    members_[member.rank] = std::move(member);
  }

  // Who does not take or answer one message is asked no more: it may cost its limit of time only once.
  void Lose(Member* member) {
    member->channel.reset();
    member->lost = true;
  }
  bool Send(Member* member, Kind kind, const std::string& payload) {
    if (!member->channel) return false;
    if (member->channel->Send(kind, payload, MonotonicNow() + kSendToMember_ns)) return true;
    Lose(member);
    return false;
  }
  std::optional<std::string> Receive(Member* member, Kind kind, std::int64_t until_ns) {
    if (!member->channel) return std::nullopt;
    std::optional<Message> message = member->channel->Receive(until_ns);
    if (message && message->kind == kind) return std::move(message->payload);
    Lose(member);
    return std::nullopt;
  }

  // Of several exchanges the quickest tells best: the other clock is read in its middle, give or take half of it.
  void MeasureClocks(Gathered* gathered) {
    for (auto& [rank, member] : members_) {
      RankReport report{rank, member.host, member.report, member.guessable, 0, member.channel ? -1.0 : 0.0};
      double best = 1e9;
      for (int i = 0; i < kPings; ++i) {
        const double before = RealNow();
        if (!Send(&member, Kind::kPing, "")) break;
        const std::optional<std::string> answer = Receive(&member, Kind::kPong, MonotonicNow() + kPong_ns);
        const double after = RealNow();
        if (!answer) break;
        const std::optional<Pong> pong = Pong::Decode(*answer);
        if (!pong) {
          Lose(&member);
          break;
        }
        if (after - before >= best) continue;
        best = after - before;
        report.clock_ahead_s = pong->now_s - (before + after) / 2;
        report.clock_error_s = best / 2;
      }
      gathered->ranks.push_back(std::move(report));
    }
  }

  // The first rank of each host that answers tries those of the next hosts, in a ring.
  void TryHosts(Gathered* gathered) {
    std::vector<Member*> hosts;
    std::set<std::string> seen;
    for (auto& [rank, member] : members_)
      if (!member.lost && member.port != 0 && seen.insert(member.host).second) hosts.push_back(&member);
    if (hosts.size() < 2) return;
    std::vector<std::pair<Member*, TryRequest>> tasks;
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      TryRequest request{{}, active_};
      for (std::size_t step = 1; step < hosts.size() && step <= TryRequest::kMostPeers; ++step) {
        const Member& peer = *hosts[(i + step) % hosts.size()];
        request.peers.push_back({peer.rank, peer.address, peer.port});
      }
      tasks.emplace_back(hosts[i], std::move(request));
    }
    // Bandwidth is measured by one host at a time, all else at once.
    for (auto& [member, request] : tasks) {
      Send(member, Kind::kTry, request.Encode());
      if (active_) Collect(member, request, MonotonicNow() + kAttempts_ns, gathered);
    }
    const std::int64_t until = MonotonicNow() + kAttempts_ns;
    for (auto& [member, request] : tasks)
      if (!active_) Collect(member, request, until, gathered);
  }
  void Collect(Member* member, const TryRequest& request, std::int64_t until_ns, Gathered* gathered) {
    std::optional<std::vector<Attempt>> attempts;
    if (member->rank == ranks_.rank) {
      attempts = TryAll(request, credentials_, member->rank);
    } else if (const std::optional<std::string> answer = Receive(member, Kind::kAttempts, until_ns)) {
      attempts = DecodeAttempts(*answer, member->rank, request);
      if (!attempts) Lose(member);
    }
    if (attempts) gathered->attempts.insert(gathered->attempts.end(), attempts->begin(), attempts->end());
  }

  const MeetingPlace& place_;
  const rundir::Place& ranks_;
  const bool active_;
  const Credentials credentials_;
  int error_ = 0;
  Door door_;
  std::optional<EchoServer> echo_;
  std::map<int, Member> members_;
};

}  // namespace

Gathered GatherRanks(const MeetingPlace& place, const rundir::Place& ranks, Report own, bool active,
                     std::int64_t wait_ns) {
  return Hub(place, ranks, active).Run(std::move(own), wait_ns);
}

}  // namespace ncclwatch::doctor
