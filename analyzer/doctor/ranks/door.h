// Where a rank listens, and those who come until they have proved the token and sent their first message. Strangers,
// silent or wrong, cost a place among kMostPending for a short time, and keep nobody out: the oldest of them make room.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "analyzer/doctor/ranks/channel.h"

namespace ncclwatch::doctor {

struct Arrival {
  std::unique_ptr<Channel> channel;  // proven
  Message first;
};

class Door {
 public:
  static constexpr std::size_t kMostPending = 64;

  // keys must outlive it.
  Door(Socket listener, const exchange::Keys& keys) : listener_(std::move(listener)), keys_(keys) {}
  explicit operator bool() const { return static_cast<bool>(listener_); }
  std::uint16_t port() const { return listener_ ? PortOf(listener_) : 0; }

  // None: nobody has come in time.
  std::optional<Arrival> Next(std::int64_t until_ns);
  std::size_t strangers() const { return strangers_; }  // who came and did not prove the token

 private:
  struct Guest {
    std::unique_ptr<Channel> channel;
    std::int64_t since_ns = 0;
  };
  bool MakeRoom(std::int64_t now_ns);
  void TakeIn(std::int64_t now_ns);
  void Drop(std::size_t which);
  void DropLate(std::int64_t now_ns);
  std::optional<Arrival> Hear(std::size_t which);
  std::int64_t Due_ns() const;

  Socket listener_;
  const exchange::Keys& keys_;
  std::vector<Guest> guests_;  // oldest first
  std::int64_t paused_until_ns_ = 0;
  std::size_t strangers_ = 0;
};

}  // namespace ncclwatch::doctor
