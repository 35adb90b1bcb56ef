// What ranks send one another after both have proved the token: one JSON object a frame. A peer that holds the token
// may still be damaged or of another build: Decode checks every value and bounds every list, and gives none for the
// rest.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analyzer/doctor/checks/result.h"

namespace ncclwatch::doctor {

enum class Kind : std::uint16_t {
  kHello = 1,    // rank to rank 0: who I am, and my report
  kWelcome = 2,  // rank 0: you belong to this job
  kPing = 3,     // rank 0: what time is it
  kPong = 4,
  kTry = 5,  // rank 0: try to reach these
  kAttempts = 6,
  kEnd = 7,    // rank 0: the report is made
  kEcho = 8,   // rank to rank: what I shall send
  kReady = 9,  // then bytes follow that are not sealed: they mean nothing
};

struct Outcome {  // of one check
  std::string id;
  Result result;
};
struct Report {  // of one rank
  std::vector<Outcome> checks;
  std::map<std::string, std::string> versions, variables;
};
nlohmann::json ToJson(const Report& report);

struct Hello {
  int rank = 0;
  std::string host, address;  // the address is a number, or empty
  std::uint16_t port = 0;     // where it answers those that try it; 0: nowhere
  Report report;
  std::string Encode() const;
  static std::optional<Hello> Decode(std::string_view payload, int world_size);
};

struct Peer {
  int rank = 0;
  std::string address;
  std::uint16_t port = 0;
};
struct TryRequest {
  static constexpr std::size_t kMostPeers = 16;
  std::vector<Peer> peers;
  bool active = false;  // bandwidth too
  std::string Encode() const;
  static std::optional<TryRequest> Decode(std::string_view payload);
};

// One rank tried to reach another.
struct Attempt {
  int from = 0, to = 0;
  std::string error;  // empty: it went well
  double round_trip_s = 0, bytes_per_s = 0;
  std::vector<std::pair<std::size_t, double>> ladder;  // bytes, round trip in seconds; of --active
};
std::string EncodeAttempts(const std::vector<Attempt>& attempts);
// `request`: what they answer; an attempt at somebody else is left out.
std::optional<std::vector<Attempt>> DecodeAttempts(std::string_view payload, int from, const TryRequest& request);

struct Pong {
  double now_s = 0;  // CLOCK_REALTIME
  std::string Encode() const;
  static std::optional<Pong> Decode(std::string_view payload);
};

struct EchoRequest {
  static constexpr std::uint32_t kMostRounds = 16, kMostSize = 1u << 18;
  static constexpr std::uint64_t kMostBytes = 64u << 20;
  std::uint32_t rounds = 0, size = 0;  // each round trip has so many bytes
  std::uint64_t bytes = 0;             // then so many one way
  std::string Encode() const;
  static std::optional<EchoRequest> Decode(std::string_view payload);
};

}  // namespace ncclwatch::doctor
