// What a peer of `ncclwatch doctor` may send once it has proved the token. The first byte chooses the message. What
// must hold: no crash, and what is taken is within its bounds and stays itself.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "analyzer/doctor/ranks/across.h"
#include "analyzer/doctor/ranks/messages.h"
#include "analyzer/doctor/report.h"
#include "watchdog/exchange/net/endpoint.h"

namespace {

using namespace ncclwatch::doctor;

constexpr int kWorldSize = 4;

void Require(bool holds) {
  if (!holds) std::abort();
}

bool IsNumber(const std::string& address) {
  return address.empty() || ncclwatch::exchange::Endpoint::Parse(address, 0).has_value();
}

Gathered GatheredOf(const Hello& hello) {
  Gathered gathered;
  gathered.ranks.push_back({0, "host0", {}, false, 0, 0});
  gathered.ranks.push_back({hello.rank, hello.host, hello.report, true, 0.5, 0.1});
  gathered.where = "host0:20000";
  return gathered;
}

void Print(const Gathered& gathered) {
  JobReport report;
  report.ranks = 2;
  report.checks = Merge(gathered);
  report.differences = DifferencesOf(gathered);
  for (Finding& one : CompareRanks(gathered, report.differences, kWorldSize, true)) report.checks.push_back(one);
  ToText(report, true);
  ToJson(report);
}

void TakeHello(std::string_view bytes) {
  const auto hello = Hello::Decode(bytes, kWorldSize);
  if (!hello) return;
  Require(hello->rank >= 0 && hello->rank < kWorldSize && !hello->host.empty() && IsNumber(hello->address));
  const auto again = Hello::Decode(hello->Encode(), kWorldSize);
  Require(again && again->Encode() == hello->Encode());
  Print(GatheredOf(*hello));
}

void TakeTry(std::string_view bytes) {
  const auto request = TryRequest::Decode(bytes);
  if (!request) return;
  Require(request->peers.size() <= TryRequest::kMostPeers);
  for (const Peer& peer : request->peers) Require(peer.rank >= 0 && IsNumber(peer.address));
  Require(TryRequest::Decode(request->Encode())->Encode() == request->Encode());
}

void TakeAttempts(std::string_view bytes) {
  const TryRequest request{{{0, "127.0.0.1", 1}, {2, "127.0.0.1", 2}}, true};
  const auto attempts = DecodeAttempts(bytes, 1, request);
  if (!attempts) return;
  Require(attempts->size() <= TryRequest::kMostPeers);
  for (const Attempt& one : *attempts) {
    Require(one.from == 1 && (one.to == 0 || one.to == 2));
    Require(std::isfinite(one.round_trip_s) && std::isfinite(one.bytes_per_s));
  }
  Hello hello;
  hello.rank = 1;
  Gathered gathered = GatheredOf(hello);
  gathered.attempts = *attempts;
  Print(gathered);
}

void TakeSmall(std::string_view bytes) {
  if (const auto pong = Pong::Decode(bytes)) Require(std::isfinite(pong->now_s));
  if (const auto echo = EchoRequest::Decode(bytes))
    Require(echo->rounds <= EchoRequest::kMostRounds && echo->size <= EchoRequest::kMostSize &&
            echo->bytes <= EchoRequest::kMostBytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 4) {
    case 0: TakeHello(rest); break;
    case 1: TakeTry(rest); break;
    case 2: TakeAttempts(rest); break;
    case 3: TakeSmall(rest); break;
  }
  return 0;
}
