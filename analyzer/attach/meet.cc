#include "analyzer/attach/meet.h"

#include <fmt/core.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <thread>

#include "analyzer/console/units.h"
#include "analyzer/doctor/ranks/channel.h"
#include "analyzer/doctor/ranks/door.h"
#include "analyzer/doctor/ranks/meeting_place.h"
#include "analyzer/doctor/ranks/socket.h"
#include "ncclwatch/nanoseconds.h"
#include "watchdog/rundir/launcher.h"
#include "watchdog/settings/settings.h"

namespace ncclwatch::analyzer::attach {

// What one node tells another. A value of another type is damage: nlohmann's exception.
static void to_json(nlohmann::json& to, const Step& step) {
  to = {{"text", step.text}};
  if (step.number) to["number"] = *step.number;
}
static void from_json(const nlohmann::json& from, Step& step) {
  step.text = from.at("text").get<std::string>();
  if (from.contains("number")) step.number = from.at("number").get<std::int64_t>();
}
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Logs, files, silent_s, cause, cause_at_s)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Spot, function, at)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Standing, rank, pid, start_time, host, state, moving, busy, in, to_one, of_device,
                                   site, python_site, path, group, group_known, peer, host_function, rendezvous, step,
                                   where, holds, trouble)

namespace {

using nlohmann::json;

constexpr std::int64_t kSend_ns = 5 * kSecond, kDial_ns = 3 * kSecond;
constexpr std::size_t kMostRanks = 65536;  // told by one node

std::string Encode(const RunningJob& job, const RollCall& call) {
  return json{{"world_size", job.world_size}, {"seconds", call.seconds}, {"ranks", call.ranks}, {"logs", call.logs}}
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

// False: it is damaged, and nothing was taken in. Who has called a rank first is believed.
bool TakeIn(const std::string& payload, RunningJob* job, RollCall* call) {
  try {
    const json told = json::parse(payload);
    if (told.at("ranks").size() > kMostRanks) return false;
    auto ranks = told.at("ranks").get<std::vector<Standing>>();
    call->logs = Joined(call->logs, told.at("logs").get<Logs>());
    job->world_size = std::max(job->world_size, std::min(told.at("world_size").get<int>(), 1 << 20));
    // A node without ranks has looked at nothing.
    if (const double seconds = told.at("seconds").get<double>(); !ranks.empty())
      call->seconds = call->ranks.empty() ? seconds : std::min(call->seconds, seconds);
    std::set<int> known;
    for (const Standing& one : call->ranks) known.insert(one.rank);
    for (Standing& one : ranks)
      if (known.insert(one.rank).second) call->ranks.push_back(std::move(one));
  } catch (const json::exception&) {
    return false;
  }
  std::sort(call->ranks.begin(), call->ranks.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
  return true;
}

// An address of this machine can be bound to.
bool IsHere(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return false;
  bool here = false;
  for (const addrinfo* one = found; one != nullptr && !here; one = one->ai_next) {
    const int socket = ::socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    here = socket >= 0 && bind(socket, one->ai_addr, one->ai_addrlen) == 0;
    if (socket >= 0) close(socket);
  }
  freeaddrinfo(found);
  return here;
}

// The host may start later than this node, and another port may be the right one.
Met Tell(const doctor::MeetingPlace& place, const doctor::Credentials& credentials, const std::string& payload,
         std::int64_t until_ns, std::string* why) {
  for (std::size_t turn = 0; MonotonicNow() < until_ns; ++turn) {
    const std::string& host = place.hosts[turn % place.hosts.size()];
    const std::uint16_t port = place.ports[turn / place.hosts.size() % place.ports.size()];
    const auto channel =
        doctor::Channel::Dial(host, port, credentials, std::min(until_ns, MonotonicNow() + kDial_ns), why);
    if (channel && channel->Send(doctor::Kind::kHello, payload, MonotonicNow() + kSend_ns) &&
        channel->Receive(MonotonicNow() + kSend_ns))
      return Met::kMember;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return Met::kAlone;
}

// `tasks`: that are to come; 0: not known.
Met Host(doctor::Socket listener, const doctor::Credentials& credentials, std::int64_t until_ns, int tasks,
         RunningJob* job, RollCall* call) {
  doctor::Door door(std::move(listener), credentials.keys);
  const auto is_whole = [&] {
    return job->world_size > 0 && call->ranks.size() >= static_cast<std::size_t>(job->world_size);
  };
  for (int come = 0; !is_whole() && (tasks == 0 || come < tasks);) {
    const std::optional<doctor::Arrival> arrival = door.Next(until_ns);
    if (!arrival) break;
    if (arrival->first.kind != doctor::Kind::kHello || !TakeIn(arrival->first.payload, job, call)) continue;
    arrival->channel->Send(doctor::Kind::kEnd, "", MonotonicNow() + kSend_ns);
    ++come;
  }
  return Met::kJoined;
}

doctor::Socket ListenAt(const doctor::MeetingPlace& place) {
  for (const std::uint16_t port : place.ports)
    if (doctor::Socket listener = doctor::Listen(port, place.bind)) return listener;
  return doctor::Socket();
}

std::optional<std::string_view> OwnVariable(std::string_view name) {
  const char* const value = std::getenv(std::string(name).c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string_view>(value);
}

rundir::Place OwnPlace() { return rundir::PlaceFrom(OwnVariable); }

// One of each other machine.
int TasksToCome(const rundir::Place& own) {
  const int each = std::max(1, own.local_world_size);
  return (own.world_size + each - 1) / each - 1;
}

}  // namespace

// RANK and WORLD_SIZE alone may be those of a container that holds the job.
bool IsOneOfSeveral() {
  const rundir::Place own = OwnPlace();
  const bool started = own.launcher == rundir::Launcher::kSlurm || own.launcher == rundir::Launcher::kOpenMpi ||
                       own.launcher == rundir::Launcher::kMpich;
  return started && own.world_size > 1;
}

bool IsSpare() { return IsOneOfSeveral() && OwnPlace().local_rank > 0; }

std::string OwnSlurmJob() { return std::string(OwnVariable("SLURM_JOB_ID").value_or("")); }

Met Meet(const std::string& named, std::int64_t wait_ns, RunningJob* job, RollCall* call, std::string* why) {
  const doctor::MeetingPlace place = doctor::PlaceOf(OwnVariable, settings::OfThisProcess(), named);
  if (!place.refused.empty() || place.hosts.empty() || place.ports.empty()) {
    const char* const unknown =
        named.empty() ? "the launcher does not say where the first task is" : "it is no HOST:PORT";
    *why = place.refused.empty() ? unknown : place.refused;
    return Met::kAlone;
  }
  const doctor::Credentials credentials{exchange::Keys(place.tokens), place.bind};
  const std::int64_t until_ns = MonotonicNow() + wait_ns;
  const rundir::Place own = OwnPlace();
  if (named.empty() ? own.rank == 0 : IsHere(place.hosts.front())) {
    if (doctor::Socket listener = ListenAt(place))
      return Host(std::move(listener), credentials, until_ns, named.empty() ? TasksToCome(own) : 0, job, call);
    if (named.empty()) {
      *why = "no port of it can be listened at";
      return Met::kAlone;
    }
  }
  return Tell(place, credentials, Encode(*job, *call), until_ns, why);
}

}  // namespace ncclwatch::analyzer::attach
