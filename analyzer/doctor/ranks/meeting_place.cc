#include "analyzer/doctor/ranks/meeting_place.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>

#include "analyzer/doctor/ranks/socket.h"
#include "watchdog/exchange/protocol/crypto.h"
#include "watchdog/exchange/rendezvous/address.h"
#include "watchdog/exchange/rendezvous/token.h"
#include "watchdog/exchange/rendezvous/token_file.h"
#include "watchdog/exchange/rendezvous/token_search.h"
#include "watchdog/rundir/process.h"
#include "watchdog/rundir/run_directory.h"

namespace ncclwatch::doctor {
namespace {

constexpr char kLoopback[] = "127.0.0.1";

void Take(const exchange::Address& address, MeetingPlace* place) {
  place->hosts = {address.host};
  place->hosts.insert(place->hosts.end(), address.more_hosts.begin(), address.more_hosts.end());
  place->ports = {address.port};
  place->ports.insert(place->ports.end(), address.more_ports.begin(), address.more_ports.end());
  place->source = address.source;
}

bool IsLoopback(const std::string& host) {
  const auto endpoint = exchange::Endpoint::Parse(host, 0);
  return host == "localhost" || (endpoint && endpoint->IsLoopback());
}

// Who started the ranks of this host is the same for all of them, and tells one job from another.
std::string IdentityOnOneHost(const rundir::Place& ranks) {
  const rundir::Instance instance = rundir::InstanceOf(getpid(), ranks);
  return fmt::format("host/{}/{}.{}", rundir::BootId(), instance.pid, instance.start_time);
}

void PutHosts(const rundir::Lookup& lookup, const std::string& named, const std::string& identity,
              MeetingPlace* place) {
  if (!named.empty()) {
    std::string why;
    const std::optional<exchange::Address> address = exchange::ParseAddress("tcp://" + named, &why);
    if (!address) {
      place->refused = "--meet takes HOST:PORT, not '" + named + "'";
      return;
    }
    Take(*address, place);
    place->source = "--meet";
    if (IsLoopback(address->host) && place->bind.address.empty())
      place->bind.address = address->host == "localhost" ? kLoopback : address->host;
    return;
  }
  const exchange::Address address = exchange::AddressFromLauncher(lookup, place->bind);
  if (address.kind == exchange::Address::Kind::kTcp) {
    Take(address, place);
  } else if (place->one_host) {
    for (unsigned which = 0; which < exchange::kPorts; ++which)
      place->ports.push_back(settings::InRange(place->bind, exchange::PortOf(identity, which)));
    place->source = "one host";
  }
  if (!place->one_host) return;
  if (place->bind.address.empty()) place->bind.address = kLoopback;
  const std::string own = OwnAddressIn(place->bind);
  place->hosts = {own.empty() ? kLoopback : own};
}

// A proof for doctor is none for the watchdog's exchange, and the other way round.
exchange::Token ForDoctor(const exchange::Token& token) {
  return {exchange::HmacKey(token.bytes).Of({"ncclwatch doctor"}), token.guessable};
}

void PutTokens(const rundir::Lookup& lookup, const settings::Settings& settings, const std::string& identity,
               MeetingPlace* place) {
  exchange::TokenRequest request;
  request.secret = settings.token;
  request.file = settings.token_file;
  request.job_name = settings.job;
  request.name = exchange::FileNameOf(identity);
  exchange::PutPlaces(settings.out, lookup, &request);
  exchange::FoundTokens found = exchange::FindTokens(request);
  place->refused = found.refused;
  // Without a home a host still has a folder that is this user's.
  if (place->one_host && !request.GivenByUser() && found.tokens.empty()) {
    for (const std::string& base : rundir::DefaultBases()) {
      const exchange::Secret secret = exchange::SharedSecret(base + "/.doctor", request.name);
      if (secret.text.empty()) continue;
      found.tokens.push_back(exchange::TokenOfSecret(secret.text, request.name));
      break;
    }
  }
  found.everywhere = found.everywhere || (place->one_host && !found.tokens.empty());
  for (const exchange::Token& token : found.tokens) place->tokens.push_back(ForDoctor(token));
  if (!found.everywhere) place->tokens.push_back(ForDoctor(exchange::TokenOfJob(identity)));
}

}  // namespace

MeetingPlace PlaceOf(const rundir::Lookup& lookup, const settings::Settings& settings, const std::string& named) {
  const rundir::Place ranks = rundir::PlaceFrom(lookup);
  MeetingPlace place;
  place.refused = exchange::HasCrypto() ? settings.why_no_exchange : "this build has no encryption";
  if (!place.refused.empty()) return place;
  place.one_host = ranks.world_size > 0 && ranks.local_world_size == ranks.world_size;
  place.bind = settings::ParseBind(settings.bind).value_or(settings::BindAddress());
  std::string identity = exchange::JobIdentity(lookup);
  if (identity.empty() && !named.empty()) identity = "meet/" + named;
  if (identity.empty() && place.one_host) identity = IdentityOnOneHost(ranks);
  PutHosts(lookup, named, identity, &place);
  if (place.refused.empty() && !place.ports.empty()) PutTokens(lookup, settings, identity, &place);
  return place;
}

}  // namespace ncclwatch::doctor
