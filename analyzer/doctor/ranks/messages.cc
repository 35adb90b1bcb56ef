#include "analyzer/doctor/ranks/messages.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "watchdog/exchange/net/endpoint.h"

namespace ncclwatch::doctor {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostChecks = 1024, kMostFacts = 8192, kMostSteps = 16, kMostHostName = 255;

std::string Text(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

// An object that is not nested deeper than ours: what copies or prints a value recurses.
std::optional<Json> ParseObject(std::string_view text) {
  constexpr int kDeepest = 6;
  bool deep = false;
  const auto look = [&](int depth, Json::parse_event_t, Json&) {
    deep = deep || depth > kDeepest;
    return !deep;
  };
  Json value = Json::parse(text, look, false);
  if (deep || !value.is_object()) return std::nullopt;
  return value;
}

std::optional<std::uint64_t> Integer(const Json& object, const char* key, std::uint64_t most) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_unsigned()) return std::nullopt;
  const auto number = found->get<std::uint64_t>();
  return number <= most ? std::optional(number) : std::nullopt;
}

std::optional<double> Real(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return std::nullopt;
  const auto number = found->get<double>();
  return std::isfinite(number) && number >= 0 ? std::optional(number) : std::nullopt;
}

std::optional<std::string> String(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

const Json* Field(const Json& object, const char* key, Json::value_t type, std::size_t most) {
  const auto found = object.find(key);
  return found == object.end() || found->type() != type || found->size() > most ? nullptr : &*found;
}

// A number: no name is looked up because a peer says so.
std::optional<std::string> Address(const Json& object) {
  std::optional<std::string> address = String(object, "address");
  if (!address || address->empty() || exchange::Endpoint::Parse(*address, 0)) return address;
  return std::nullopt;
}

std::optional<Outcome> DecodeOutcome(const Json& json) {
  if (!json.is_object()) return std::nullopt;
  const auto id = String(json, "id"), status = String(json, "status"), seen = String(json, "seen"),
             reason = String(json, "reason"), advice = String(json, "advice");
  if (!id || id->empty() || !status || !seen || !reason || !advice) return std::nullopt;
  const auto* const name = std::find(kStatusNames.begin(), kStatusNames.end(), *status);
  if (name == kStatusNames.end()) return std::nullopt;
  return Outcome{*id, {static_cast<Status>(name - kStatusNames.begin()), *seen, *reason, *advice}};
}

bool DecodeFacts(const Json& report, const char* key, std::map<std::string, std::string>* facts) {
  const Json* const object = Field(report, key, Json::value_t::object, kMostFacts);
  if (!object) return false;
  for (const auto& [name, value] : object->items()) {
    if (!value.is_string()) return false;
    facts->emplace(name, value.get<std::string>());
  }
  return true;
}

std::optional<Report> DecodeReport(const Json& hello) {
  Report report;
  const Json* const json = Field(hello, "report", Json::value_t::object, kMostFacts);
  if (!json) return std::nullopt;
  const Json* const checks = Field(*json, "checks", Json::value_t::array, kMostChecks);
  if (!checks) return std::nullopt;
  for (const Json& check : *checks) {
    std::optional<Outcome> one = DecodeOutcome(check);
    if (!one) return std::nullopt;
    report.checks.push_back(*std::move(one));
  }
  if (!DecodeFacts(*json, "versions", &report.versions) || !DecodeFacts(*json, "variables", &report.variables))
    return std::nullopt;
  return report;
}

std::optional<Attempt> DecodeAttempt(const Json& json, int from) {
  if (!json.is_object()) return std::nullopt;
  const auto to = Integer(json, "to", INT32_MAX);
  const auto error = String(json, "error");
  const auto round_trip = Real(json, "round_trip_s"), rate = Real(json, "bytes_per_s");
  const Json* const ladder = Field(json, "ladder", Json::value_t::array, kMostSteps);
  if (!to || !error || !round_trip || !rate || !ladder) return std::nullopt;
  Attempt attempt{from, static_cast<int>(*to), *error, *round_trip, *rate, {}};
  for (const Json& step : *ladder) {
    if (!step.is_object()) return std::nullopt;
    const auto size = Integer(step, "size", EchoRequest::kMostSize);
    const auto seconds = Real(step, "s");
    if (!size || !seconds) return std::nullopt;
    attempt.ladder.emplace_back(*size, *seconds);
  }
  return attempt;
}

}  // namespace

Json ToJson(const Report& report) {
  Json checks = Json::array();
  for (const auto& [id, result] : report.checks)
    checks.push_back({{"id", id},
                      {"status", Name(result.status)},
                      {"seen", result.seen},
                      {"reason", result.reason},
                      {"advice", result.advice}});
  return {{"checks", std::move(checks)}, {"versions", report.versions}, {"variables", report.variables}};
}

std::string Hello::Encode() const {
  return Text({{"rank", rank}, {"host", host}, {"address", address}, {"port", port}, {"report", ToJson(report)}});
}

std::optional<Hello> Hello::Decode(std::string_view payload, int world_size) {
  const std::optional<Json> json = ParseObject(payload);
  if (!json || world_size <= 0) return std::nullopt;
  const auto rank = Integer(*json, "rank", static_cast<std::uint64_t>(world_size) - 1);
  const auto host = String(*json, "host"), address = Address(*json);
  const auto port = Integer(*json, "port", UINT16_MAX);
  if (!rank || !host || host->empty() || host->size() > kMostHostName || !address || !port) return std::nullopt;
  std::optional<Report> report = DecodeReport(*json);
  if (!report) return std::nullopt;
  return Hello{static_cast<int>(*rank), *host, *address, static_cast<std::uint16_t>(*port), *std::move(report)};
}

std::string TryRequest::Encode() const {
  Json list = Json::array();
  for (const Peer& peer : peers) list.push_back({{"rank", peer.rank}, {"address", peer.address}, {"port", peer.port}});
  return Text({{"peers", std::move(list)}, {"active", active}});
}

std::optional<TryRequest> TryRequest::Decode(std::string_view payload) {
  const std::optional<Json> json = ParseObject(payload);
  if (!json) return std::nullopt;
  const Json* const list = Field(*json, "peers", Json::value_t::array, kMostPeers);
  const Json* const active = Field(*json, "active", Json::value_t::boolean, 1);
  if (!list || !active) return std::nullopt;
  TryRequest request{{}, active->get<bool>()};
  for (const Json& peer : *list) {
    if (!peer.is_object()) return std::nullopt;
    const auto rank = Integer(peer, "rank", INT32_MAX), port = Integer(peer, "port", UINT16_MAX);
    const auto address = Address(peer);
    if (!rank || !port || !address) return std::nullopt;
    request.peers.push_back({static_cast<int>(*rank), *address, static_cast<std::uint16_t>(*port)});
  }
  return request;
}

std::string EncodeAttempts(const std::vector<Attempt>& attempts) {
  Json list = Json::array();
  for (const Attempt& one : attempts) {
    Json ladder = Json::array();
    for (const auto& [size, seconds] : one.ladder) ladder.push_back({{"size", size}, {"s", seconds}});
    list.push_back({{"to", one.to},
                    {"error", one.error},
                    {"round_trip_s", one.round_trip_s},
                    {"bytes_per_s", one.bytes_per_s},
                    {"ladder", std::move(ladder)}});
  }
  return Text({{"attempts", std::move(list)}});
}

std::optional<std::vector<Attempt>> DecodeAttempts(std::string_view payload, int from, const TryRequest& request) {
  const std::optional<Json> json = ParseObject(payload);
  if (!json) return std::nullopt;
  const Json* const list = Field(*json, "attempts", Json::value_t::array, TryRequest::kMostPeers);
  if (!list) return std::nullopt;
  std::vector<Attempt> attempts;
  for (const Json& one : *list) {
    std::optional<Attempt> attempt = DecodeAttempt(one, from);
    if (!attempt) return std::nullopt;
    const auto asked = [&](const Peer& peer) { return peer.rank == attempt->to; };
    if (std::any_of(request.peers.begin(), request.peers.end(), asked)) attempts.push_back(*std::move(attempt));
  }
  return attempts;
}

std::string Pong::Encode() const { return Text({{"now_s", now_s}}); }

std::optional<Pong> Pong::Decode(std::string_view payload) {
  const std::optional<Json> json = ParseObject(payload);
  const auto now = json ? Real(*json, "now_s") : std::nullopt;
  return now ? std::optional(Pong{*now}) : std::nullopt;
}

std::string EchoRequest::Encode() const { return Text({{"rounds", rounds}, {"size", size}, {"bytes", bytes}}); }

std::optional<EchoRequest> EchoRequest::Decode(std::string_view payload) {
  const std::optional<Json> json = ParseObject(payload);
  if (!json) return std::nullopt;
  const auto rounds = Integer(*json, "rounds", kMostRounds), size = Integer(*json, "size", kMostSize),
             bytes = Integer(*json, "bytes", kMostBytes);
  if (!rounds || !size || !bytes) return std::nullopt;
  return EchoRequest{static_cast<std::uint32_t>(*rounds), static_cast<std::uint32_t>(*size), *bytes};
}

}  // namespace ncclwatch::doctor
