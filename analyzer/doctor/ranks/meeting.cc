#include "analyzer/doctor/ranks/meeting.h"

#include <fmt/core.h>

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <map>
#include <memory>
#include <set>
#include <thread>

#include "analyzer/console/units.h"
#include "analyzer/doctor/checks/network.h"
#include "analyzer/doctor/ranks/echo_server.h"
#include "watchdog/exchange/rendezvous/address.h"

namespace ncclwatch::doctor {
namespace {

using analyzer::MonotonicNow;

constexpr std::int64_t kMilli = 1'000'000, kSecond = 1'000 * kMilli;
constexpr std::int64_t kAnswer_ns = 60 * kSecond;
constexpr int kPings = 8;
constexpr std::size_t kMostTried = 16;  // other hosts that one host tries
constexpr std::uint64_t kFirstBytes = 1u << 20, kMostBytes = 64u << 20;
constexpr double kTransfer_s = 0.5;

double RealNow() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

struct Member {
  std::unique_ptr<LineSocket> line;  // null: rank 0 itself
  int rank = 0;
  std::string host, address;
  std::uint16_t port = 0;
  Json report;
};

// To others: an interface's address, else the one by which rank 0 sees the rank.
std::string OwnAddress() {
  const std::vector<Interface> all = Interfaces();
  return all.empty() ? "" : all.front().address;
}

// As many bytes as take about half a second.
Trial TryBandwidth(const std::string& address, std::uint16_t port) {
  const Trial first = Try(address, port, 8, kFirstBytes);
  if (!first.error.empty()) return first;
  const auto bytes = static_cast<std::uint64_t>(kTransfer_s * first.bytes_per_s);
  return Try(address, port, 8, std::clamp(bytes, kFirstBytes, kMostBytes));
}

// A rank that tries others because rank 0 asks for it.
Json TryAll(const Json& peers, bool active) {
  Json attempts = Json::array();
  for (const Json& peer : peers) {
    const std::string address = peer.value("address", "");
    const auto port = peer.value<std::uint16_t>("port", 0);
    const Trial trial = active ? TryBandwidth(address, port) : Try(address, port, 8, 0);
    Json attempt = {{"to", peer.value("rank", -1)},
                    {"error", trial.error},
                    {"round_trip_s", trial.round_trip_s},
                    {"bytes_per_s", trial.bytes_per_s},
                    {"ladder", Json::array()}};
    if (active && trial.error.empty())
      for (std::size_t size = 8; size <= 1u << 18; size *= 32)
        attempt["ladder"].push_back({size, Try(address, port, size, 0).round_trip_s});
    attempts.push_back(std::move(attempt));
  }
  return attempts;
}

Attempt AttemptOf(int from, const Json& json) {
  Attempt attempt{from,
                  json.value("to", -1),
                  json.value("error", ""),
                  json.value("round_trip_s", 0.0),
                  json.value("bytes_per_s", 0.0),
                  {}};
  if (json.contains("ladder"))
    for (const Json& step : json["ladder"])
      if (step.is_array() && step.size() == 2)
        attempt.ladder.emplace_back(step[0].get<std::size_t>(), step[1].get<double>());
  return attempt;
}

class Hub {
 public:
  Hub(const MeetingPlace& place, const rundir::Place& ranks, bool active)
      : place_(place), ranks_(ranks), active_(active) {}

  Gathered Run(Json own, std::int64_t wait_ns) {
    Gathered gathered;
    Socket listener;
    for (const std::uint16_t port : place_.ports) {
      if ((listener = Listen(port))) {
        gathered.where = fmt::format("{}:{} ({})", HostName(), port, place_.source);
        break;
      }
    }
    AddSelf(std::move(own));
    if (place_.ports.empty())
      gathered.why_not = "the launcher tells no address of rank 0";
    else if (listener)
      TakeIn(listener, MonotonicNow() + wait_ns);
    else
      gathered.why_not = fmt::format("rank 0 cannot listen at the port of {}: {}", place_.source, strerror(errno));
    MeasureClocks(&gathered);
    TryHosts(&gathered);
    for (auto& [rank, member] : members_)
      if (member.line) member.line->Send({{"end", true}});
    for (int rank = 0; rank < ranks_.world_size; ++rank)
      if (!members_.contains(rank)) gathered.missing.push_back(rank);
    return gathered;
  }

 private:
  void AddSelf(Json own) {
    Member self;
    self.rank = ranks_.rank;
    self.host = HostName();
    self.address = OwnAddress();
    self.port = echo_.port();
    self.report = std::move(own);
    members_.emplace(self.rank, std::move(self));
  }

  void TakeIn(const Socket& listener, std::int64_t until_ns) {
    while (members_.size() < static_cast<std::size_t>(ranks_.world_size) && MonotonicNow() < until_ns) {
      Socket socket = Accept(listener, until_ns - MonotonicNow());
      if (socket) Welcome(std::move(socket));
    }
  }

  void Welcome(Socket socket) {
    try {
      Member member;
      member.line = std::make_unique<LineSocket>(std::move(socket));
      const auto hello = member.line->Receive(2 * kSecond);
      if (!hello || hello->value("job", "") != place_.secret) return;
      member.rank = hello->value("rank", -1);
      member.host = hello->value("host", "");
      member.address = hello->value("address", "");
      if (member.address.empty()) member.address = PeerOf(member.line->socket());
      member.port = hello->value<std::uint16_t>("port", 0);
      member.report = hello->value("report", Json::object());
      if (member.rank < 0 || member.rank >= ranks_.world_size || !member.line->Send({{"welcome", true}})) return;
      members_[member.rank] = std::move(member);
    } catch (const Json::exception&) {  // a stranger
    }
  }

  // Of several exchanges the quickest tells best: the other clock is read in its middle, give or take half of it.
  void MeasureClocks(Gathered* gathered) {
    for (auto& [rank, member] : members_) {
      RankReport report{rank, member.host, member.report, 0, member.line ? -1.0 : 0.0};
      double best = 1e9;
      for (int i = 0; member.line && i < kPings; ++i) {
        const double before = RealNow();
        if (!member.line->Send({{"ping", i}})) break;
        const auto answer = member.line->Receive(2 * kSecond);
        const double after = RealNow();
        if (!answer || !answer->contains("now")) break;
        if (after - before >= best) continue;
        best = after - before;
        report.clock_ahead_s = answer->value("now", 0.0) - (before + after) / 2;
        report.clock_error_s = best / 2;
      }
      gathered->ranks.push_back(std::move(report));
    }
  }

  // The first rank of each host tries those of the next hosts, in a ring.
  void TryHosts(Gathered* gathered) {
    std::vector<Member*> hosts;
    std::set<std::string> seen;
    for (auto& [rank, member] : members_)
      if (seen.insert(member.host).second) hosts.push_back(&member);
    if (hosts.size() < 2) return;
    std::vector<std::pair<Member*, Json>> tasks;
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      Json peers = Json::array();
      for (std::size_t step = 1; step < hosts.size() && step <= kMostTried; ++step) {
        const Member& peer = *hosts[(i + step) % hosts.size()];
        peers.push_back({{"rank", peer.rank}, {"address", peer.address}, {"port", peer.port}});
      }
      tasks.emplace_back(hosts[i], std::move(peers));
    }
    // Bandwidth is measured by one host at a time, all else at once.
    for (auto& [member, peers] : tasks) {
      if (member->line) member->line->Send({{"try", peers}, {"active", active_}});
      if (active_) Collect(member, peers, gathered);
    }
    if (active_) return;
    for (auto& [member, peers] : tasks) Collect(member, peers, gathered);
  }
  void Collect(Member* member, const Json& peers, Gathered* gathered) {
    std::optional<Json> answer;
    if (member->line)
      answer = member->line->Receive(kAnswer_ns);
    else
      answer = Json{{"attempts", TryAll(peers, active_)}};
    if (!answer || !answer->contains("attempts")) return;
    for (const Json& attempt : (*answer)["attempts"]) gathered->attempts.push_back(AttemptOf(member->rank, attempt));
  }

  const MeetingPlace& place_;
  const rundir::Place& ranks_;
  const bool active_;
  EchoServer echo_;
  std::map<int, Member> members_;
};

}  // namespace

namespace {

// Who started the ranks of this host is the same for all of them, and tells one job from another.
MeetingPlace OnOneHost(const rundir::Place& ranks) {
  MeetingPlace place;
  if (ranks.world_size == 0 || ranks.local_world_size != ranks.world_size) return place;
  const rundir::Instance instance = rundir::InstanceOf(getpid(), ranks);
  const std::string identity = fmt::format("{}.{}", instance.pid, instance.start_time);
  place.hosts = {"127.0.0.1"};
  for (unsigned which = 0; which < exchange::kPorts; ++which) place.ports.push_back(exchange::PortOf(identity, which));
  place.source = "one host";
  place.secret = "ncclwatch-doctor " + identity;
  return place;
}

}  // namespace

MeetingPlace PlaceOf(const rundir::Lookup& lookup, const std::string& named) {
  MeetingPlace place;
  if (const std::size_t colon = named.rfind(':'); colon != std::string::npos) {
    place.hosts = {named.substr(0, colon)};
    place.ports = {static_cast<std::uint16_t>(std::strtoul(named.c_str() + colon + 1, nullptr, 10))};
    place.source = "--meet";
  } else {
    const exchange::Address address = exchange::AddressFromLauncher(lookup);
    if (address.kind != exchange::Address::Kind::kTcp) return OnOneHost(rundir::PlaceFrom(lookup));
    place.hosts = {address.host};
    place.hosts.insert(place.hosts.end(), address.more_hosts.begin(), address.more_hosts.end());
    place.ports = {address.port};
    place.ports.insert(place.ports.end(), address.more_ports.begin(), address.more_ports.end());
    place.source = address.source;
  }
  place.secret = fmt::format("ncclwatch-doctor {}:{}", place.hosts.front(), place.ports.front());
  return place;
}

Gathered GatherRanks(const MeetingPlace& place, const rundir::Place& ranks, Json own, bool active,
                     std::int64_t wait_ns) {
  return Hub(place, ranks, active).Run(std::move(own), wait_ns);
}

bool ReportToRank0(const MeetingPlace& place, const rundir::Place& ranks, const Json& own, std::int64_t wait_ns,
                   std::string* why) {
  const EchoServer echo;
  const Json hello = {{"job", place.secret},     {"rank", ranks.rank},  {"host", HostName()},
                      {"address", OwnAddress()}, {"port", echo.port()}, {"report", own}};
  const std::int64_t until = MonotonicNow() + wait_ns;
  std::unique_ptr<LineSocket> line;
  *why = "the launcher tells no address of rank 0";
  for (std::size_t turn = 0; !line && MonotonicNow() < until && !place.hosts.empty(); ++turn) {
    const std::string& host = place.hosts[turn % place.hosts.size()];
    const std::uint16_t port = place.ports[turn / place.hosts.size() % place.ports.size()];
    auto one = std::make_unique<LineSocket>(Connect(host, port, kSecond));
    if (one->socket()) {
      if (one->Send(hello)) {
        const auto answer = one->Receive(5 * kSecond);
        if (answer && answer->contains("welcome"))
          line = std::move(one);
        else
          *why = fmt::format("a stranger answers at {}:{}", host, port);
      }
    } else {
      *why = fmt::format("{}:{}: {}", host, port, strerror(errno));
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }
  if (!line) return false;
  while (const auto message = line->Receive(kAnswer_ns * 4)) {
    if (message->contains("end")) return true;
    if (message->contains("ping")) line->Send({{"now", RealNow()}});
    if (message->contains("try"))
      line->Send({{"attempts", TryAll((*message)["try"], message->value("active", false))}});
  }
  *why = "rank 0 went away";
  return false;
}

}  // namespace ncclwatch::doctor
