#include "watchdog/exchange/rendezvous/address.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>

#include "watchdog/exchange/protocol/crypto.h"
#include "watchdog/exchange/rendezvous/token.h"
#include "watchdog/rundir/hydra.h"
#include "watchdog/settings/exchange_address.h"

namespace ncclwatch::exchange {
namespace {

constexpr unsigned kFirstPort = 20000, kPortRange = 10000;
constexpr unsigned kMostTries = 64;  // a small range has fewer ports than are wanted

std::string Value(const rundir::Lookup& lookup, std::string_view name) {
  return std::string(lookup(name).value_or(std::string_view()));
}

// "1234.0;tcp://10.0.0.1,172.17.0.1:40000;tcp6://[fe80::1]:40001" of Open MPI 4: where mpirun itself is.
std::vector<std::string> HostsOfUri(std::string_view uri) {
  std::vector<std::string> hosts;
  std::size_t at = uri.find("tcp://");
  if (at == std::string_view::npos) return hosts;
  uri = uri.substr(at + 6);
  uri = uri.substr(0, uri.find(';'));
  uri = uri.substr(0, uri.rfind(':'));
  while (!uri.empty()) {
    const std::size_t comma = uri.find(',');
    if (comma != 0) hosts.emplace_back(uri.substr(0, comma));
    uri.remove_prefix(comma == std::string_view::npos ? uri.size() : comma + 1);
  }
  return hosts;
}

// "prterun-host-name-4711@1" of Open MPI 5.
std::string HostOfNamespace(std::string_view name) {
  const std::size_t at = name.rfind('@');
  if (!name.starts_with("prterun-") || at == std::string_view::npos) return {};
  name = name.substr(8, at - 8);
  const std::size_t dash = name.rfind('-');
  return dash == std::string_view::npos ? std::string() : std::string(name.substr(0, dash));
}

struct AddressSource {
  std::string name;
  std::vector<std::string> hosts;
};

AddressSource SourceFrom(const rundir::Lookup& lookup) {
  const std::string master = Value(lookup, "MASTER_ADDR");
  if (!master.empty()) return {"MASTER_ADDR", {master}};
  if (lookup("SLURM_STEP_ID")) {
    // srun may have run on a login node, so that the step's first node is the better guess; both are tried.
    AddressSource source{"Slurm", {}};
    for (const char* list : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"})
      if (source.hosts.empty() && lookup(list)) source.hosts = {FirstOfNodeList(Value(lookup, list))};
    source.hosts.push_back(Value(lookup, "SLURM_LAUNCH_NODE_IPADDR"));
    return source;
  }
  if (lookup("OMPI_MCA_orte_hnp_uri"))
    return {"OMPI_MCA_orte_hnp_uri", HostsOfUri(Value(lookup, "OMPI_MCA_orte_hnp_uri"))};
  if (const std::string port = Value(lookup, rundir::kHydraPort); !port.empty())
    return {"Hydra", {port.substr(0, port.rfind(':'))}};
  return {"PMIX_NAMESPACE", {HostOfNamespace(Value(lookup, "PMIX_NAMESPACE"))}};
}

}  // namespace

std::string Address::ToText() const {
  if (kind == Kind::kNone) return "none";
  const bool numeric6 = host.find(':') != std::string::npos;
  const std::string_view scheme = kind == Kind::kTcp ? "tcp" : tls.on ? "rediss" : "redis";
  const std::string shown_host = numeric6 ? fmt::format("[{}]", host) : host;
  return fmt::format("{}://{}:{}{}", scheme, shown_host, port, database != 0 ? fmt::format("/{}", database) : "");
}

std::optional<Address> ParseAddress(std::string_view text, std::string* why) {
  const std::optional<settings::ExchangeAddress> parsed = settings::ParseExchange(text);
  if (!parsed) {
    if (why)
      *why = settings::WithoutSecret(text) +
             ": neither tcp://host:port nor redis://host[:port][/database] nor rediss://...";
    return std::nullopt;
  }
  Address address;
  address.kind = parsed->redis ? Address::Kind::kRedis : Address::Kind::kTcp;
  address.host = parsed->host;
  address.port = parsed->port;
  address.database = parsed->database;
  address.user = parsed->user;
  address.password = parsed->password;
  address.tls = parsed->tls;
  address.source = "NCCLWATCH_EXCHANGE";
  return address;
}

std::uint16_t PortOf(std::string_view job_identity, unsigned which) {
  const Digest digest = HashOf({"ncclwatch port ", job_identity});
  const unsigned number = digest[0] | digest[1] << 8 | digest[2] << 16;
  // A step that shares no factor with the range: all of them differ.
  return static_cast<std::uint16_t>(kFirstPort + (number + which * 2503) % kPortRange);
}

Address AddressFromLauncher(const rundir::Lookup& lookup, const settings::BindAddress& bind) {
  AddressSource source = SourceFrom(lookup);
  std::erase(source.hosts, "");
  const std::string identity = JobIdentity(lookup);
  Address address;
  if (source.hosts.empty() || identity.empty()) return address;
  address.kind = Address::Kind::kTcp;
  address.host = source.hosts.front();
  address.more_hosts.assign(source.hosts.begin() + 1, source.hosts.end());
  address.source = source.name;
  // Never a port that the job itself uses.
  const std::string master_port = Value(lookup, "MASTER_PORT");
  std::vector<std::uint16_t> ports;
  for (unsigned i = 0; ports.size() < kPorts && i < kMostTries; ++i) {
    const std::uint16_t port = settings::InRange(bind, PortOf(identity, i));
    const bool known = std::find(ports.begin(), ports.end(), port) != ports.end();
    if (!known && std::to_string(port) != master_port) ports.push_back(port);
  }
  if (ports.empty()) return {};  // a range of one port, the job's own
  address.port = ports.front();
  address.more_ports.assign(ports.begin() + 1, ports.end());
  return address;
}

std::string FirstOfNodeList(std::string_view list) {
  const std::size_t comma = list.find(','), bracket = list.find('[');
  if (bracket == std::string_view::npos || comma < bracket) return std::string(list.substr(0, comma));
  const std::size_t close = list.find(']', bracket);
  if (close == std::string_view::npos) return {};
  const std::string_view ranges = list.substr(bracket + 1, close - bracket - 1);
  const std::string_view number = ranges.substr(0, ranges.find_first_of("-,"));
  if (number.empty() || !std::all_of(number.begin(), number.end(), [](unsigned char c) { return std::isdigit(c); }))
    return {};
  // Further dimensions or a suffix follow the bracket: "rack[1-2]node[3-4]", "gpu[1-2]-ib".
  std::string_view rest = list.substr(close + 1);
  if (rest.find('[') < rest.find(',')) {
    const std::string after = FirstOfNodeList(rest);
    return after.empty() ? std::string() : std::string(list.substr(0, bracket)) + std::string(number) + after;
  }
  return std::string(list.substr(0, bracket)) + std::string(number) + std::string(rest.substr(0, rest.find(',')));
}

}  // namespace ncclwatch::exchange
