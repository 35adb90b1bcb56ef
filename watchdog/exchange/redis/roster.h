// Whom a leader knows through Redis: the hub all nodes that give signs of life, the others the hub. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "watchdog/exchange/protocol/adaptive_timeout.h"
#include "watchdog/exchange/protocol/clock_filter.h"
#include "watchdog/exchange/protocol/context.h"

namespace ncclwatch::exchange {

// What a leader says of itself with each sign of life.
struct Presence {
  std::string host;
  std::int64_t offset_ns = 0, error_ns = -1;  // the server's clock minus its own
  std::string Encode() const;
  static std::optional<Presence> Decode(std::string_view body);
};

class Roster {
 public:
  explicit Roster(Context* context) : context_(context) {}

  // A sign of life. True: it was not there before.
  bool Heard(const std::string& node, std::uint64_t incarnation, std::int64_t now_ns);
  void Learn(const std::string& node, const Presence& presence, std::int64_t now_ns);
  bool Remove(const std::string& node);  // false: was not there
  // Those that have been silent for too long are removed, and named.
  std::vector<std::string> RemoveSilent(std::int64_t now_ns);
  void Clear();
  // The only one, as it was heard then.
  void SetOnly(const std::string& node, std::uint64_t incarnation, const Presence& presence, std::int64_t heard_ns,
               bool connected);
  std::size_t size() const { return connected_; }
  // own: the server's clock minus ours.
  std::vector<Peer> Peers(const std::optional<ClockOffset>& own, const std::string& hub, std::int64_t now_ns) const;

 private:
  static constexpr std::size_t kMost = 8192;
  struct Entry {
    Presence presence;
    std::uint64_t incarnation = 0;
    std::optional<AdaptiveTimeout> patience;
    std::int64_t learned_ns = 0;
    bool connected = false;
  };
  Context* const context_;
  std::map<std::string, Entry> entries_;
  std::size_t connected_ = 0;
};

}  // namespace ncclwatch::exchange
