#include "analyzer/doctor/ranks/door.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>

#include "analyzer/console/units.h"
#include "ncclwatch/nanoseconds.h"

namespace ncclwatch::doctor {
namespace {

using analyzer::MonotonicNow;

constexpr std::int64_t kProofStay_ns = 2'000 * kMs, kFirstMessageStay_ns = 5'000 * kMs;
// If all places are taken: a dialer's hello comes with its connection, and its proof one round trip later.
constexpr std::int64_t kSilentStay_ns = 20 * kMs, kPlausibleStay_ns = 1'000 * kMs;
constexpr std::int64_t kPause_ns = 50 * kMs;  // if the process has no descriptors left

// Whoever has guessed the token may be a stranger still.
std::int64_t StayIfFull(const Channel& channel) {
  if (channel.proven() && !channel.guessable()) return kFirstMessageStay_ns;
  return channel.plausible() ? kPlausibleStay_ns : kSilentStay_ns;
}
std::int64_t Stay(const Channel& channel) { return channel.proven() ? kFirstMessageStay_ns : kProofStay_ns; }

}  // namespace

void Door::Drop(std::size_t which) {
  if (!guests_[which].channel->proven()) ++strangers_;
  guests_.erase(guests_.begin() + static_cast<std::ptrdiff_t>(which));
}

bool Door::MakeRoom(std::int64_t now_ns) {
  if (guests_.size() < kMostPending) return true;
  for (std::size_t i = 0; i < guests_.size(); ++i) {
    const Guest& guest = guests_[i];
    if (now_ns - guest.since_ns < StayIfFull(*guest.channel)) continue;
    Drop(i);
    return true;
  }
  return false;
}

void Door::TakeIn(std::int64_t now_ns) {
  while (MakeRoom(now_ns)) {
    Socket socket = Accept(listener_);
    if (!socket) {
      if (errno != EAGAIN && errno != EINTR) paused_until_ns_ = now_ns + kPause_ns;
      return;
    }
    if (auto channel = Channel::Make(std::move(socket), exchange::Session::Side::kListener, keys_))
      guests_.push_back({std::move(channel), now_ns});
  }
}

void Door::DropLate(std::int64_t now_ns) {
  for (std::size_t i = guests_.size(); i-- > 0;)
    if (now_ns - guests_[i].since_ns >= Stay(*guests_[i].channel)) Drop(i);
}

std::optional<Arrival> Door::Hear(std::size_t which) {
  Channel& channel = *guests_[which].channel;
  const bool goes_on = channel.Pump();
  if (std::optional<Message> first = channel.Take()) {
    Arrival arrival{std::move(guests_[which].channel), *std::move(first)};
    guests_.erase(guests_.begin() + static_cast<std::ptrdiff_t>(which));
    return arrival;
  }
  if (!goes_on) Drop(which);
  return std::nullopt;
}

// When there is something to do though nothing has come.
std::int64_t Door::Due_ns() const {
  std::int64_t due = INT64_MAX;
  const bool full = guests_.size() >= kMostPending;
  for (const Guest& guest : guests_)
    due = std::min(due, guest.since_ns + (full ? StayIfFull(*guest.channel) : Stay(*guest.channel)));
  return due;
}

std::optional<Arrival> Door::Next(std::int64_t until_ns) {
  while (listener_) {
    std::int64_t now = MonotonicNow();
    DropLate(now);
    if (now >= until_ns) return std::nullopt;
    const bool open = now >= paused_until_ns_ && MakeRoom(now);
    std::vector<pollfd> polled;
    for (const Guest& guest : guests_) polled.push_back({guest.channel->socket().get(), POLLIN, 0});
    if (open) polled.push_back({listener_.get(), POLLIN, 0});
    const std::int64_t due = std::min({until_ns, Due_ns(), now < paused_until_ns_ ? paused_until_ns_ : INT64_MAX});
    const std::int64_t left_ms = std::clamp<std::int64_t>((due - now) / kMs + 1, 1, 1'000);
    if (poll(polled.data(), polled.size(), static_cast<int>(left_ms)) <= 0) continue;
    // From the last one on, so that the others keep their places.
    for (std::size_t i = guests_.size(); i-- > 0;)
      if (polled[i].revents != 0)
        if (std::optional<Arrival> arrival = Hear(i)) return arrival;
    if (open && polled.back().revents != 0) TakeIn(now);
  }
  return std::nullopt;
}

}  // namespace ncclwatch::doctor
