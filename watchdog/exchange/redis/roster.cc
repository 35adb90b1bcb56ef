#include "watchdog/exchange/redis/roster.h"

#include <algorithm>

#include "watchdog/exchange/protocol/bytes.h"

namespace ncclwatch::exchange {

std::string Presence::Encode() const {
  std::string out;
  Writer(&out).Put(offset_ns).Put(error_ns).PutText(host);
  return out;
}

std::optional<Presence> Presence::Decode(std::string_view body) {
  Reader reader(body);
  Presence presence;
  presence.offset_ns = reader.Get<std::int64_t>();
  presence.error_ns = reader.Get<std::int64_t>();
  presence.host = reader.GetText(kMaxName);
  // The server's clock counts from 1970. Differences of two such numbers, and sums of two errors, do not overflow.
  constexpr std::int64_t kMost = std::int64_t{1} << 62, kMostError = std::int64_t{1} << 60;
  if (!reader.Done() || presence.offset_ns < 0 || presence.offset_ns >= kMost || presence.error_ns >= kMostError)
    return std::nullopt;
  return presence;
}

bool Roster::Heard(const std::string& node, std::uint64_t incarnation, std::int64_t now_ns) {
  if (entries_.size() >= kMost && !entries_.contains(node)) {
    const auto gone =
        std::find_if(entries_.begin(), entries_.end(), [](const auto& one) { return !one.second.connected; });
    if (gone == entries_.end()) return false;
    entries_.erase(gone);
  }
  Entry& entry = entries_[node];
  entry.incarnation = incarnation;
  if (entry.connected) {
    entry.patience->Heard(now_ns);
    return false;
  }
  entry.connected = true;
  ++connected_;
  entry.patience.emplace(context_->setup.timing, now_ns);
  return true;
}

void Roster::Learn(const std::string& node, const Presence& presence, std::int64_t now_ns) {
  const auto found = entries_.find(node);
  if (found == entries_.end()) return;
  found->second.presence = presence;
  found->second.learned_ns = now_ns;
}

bool Roster::Remove(const std::string& node) {
  const auto found = entries_.find(node);
  if (found == entries_.end() || !found->second.connected) return false;
  found->second.connected = false;
  --connected_;
  return true;
}

std::vector<std::string> Roster::RemoveSilent(std::int64_t now_ns) {
  std::vector<std::string> silent;
  for (const auto& [node, entry] : entries_)
    if (entry.connected && entry.patience->IsOver(now_ns, context_->awake_ns)) silent.push_back(node);
  for (const std::string& node : silent) Remove(node);
  return silent;
}

void Roster::Clear() {
  entries_.clear();
  connected_ = 0;
}

void Roster::SetOnly(const std::string& node, std::uint64_t incarnation, const Presence& presence,
                     std::int64_t heard_ns, bool connected) {
  Clear();
  Entry& entry = entries_[node];
  entry.presence = presence;
  entry.incarnation = incarnation;
  entry.patience.emplace(context_->setup.timing, heard_ns);
  entry.learned_ns = heard_ns;
  entry.connected = connected;
  connected_ = connected;
}

std::vector<Peer> Roster::Peers(const std::optional<ClockOffset>& own, const std::string& hub,
                                std::int64_t now_ns) const {
  std::vector<Peer> peers;
  peers.reserve(entries_.size());
  for (const auto& [node, entry] : entries_) {
    Peer peer;
    peer.node = node;
    peer.host = entry.presence.host;
    peer.incarnation = entry.incarnation;
    if (own && entry.presence.error_ns >= 0) {
      peer.clock_offset_ns = own->offset_ns - entry.presence.offset_ns;
      peer.clock_error_ns =
          own->error_ns + entry.presence.error_ns + (now_ns - entry.learned_ns) / 1'000'000 * ClockFilter::kDrift_ppm;
    }
    peer.last_heard_ns = entry.patience ? entry.patience->heard_ns() : 0;
    peer.connected = entry.connected;
    peer.hub = node == hub;
    peers.push_back(std::move(peer));
  }
  return peers;
}

}  // namespace ncclwatch::exchange
