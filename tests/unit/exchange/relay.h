// A TCP relay on loopback that does to the bytes what networks and bad people do: holds them back, alters them, says
// them twice, leaves some out, cuts the connection, or swallows all while both ends stay connected.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>

namespace ncclwatch::testing {

struct Faults {
  std::int64_t delay_ns = 0;       // both ways
  std::int64_t back_delay_ns = 0;  // further, from the target only
  // In 1000 pieces as they come from the sockets:
  int corrupted = 0, repeated = 0, left_out = 0, cut = 0;
  bool swallow = false;
};

class Relay {
 public:
  explicit Relay(std::uint16_t target);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  std::uint16_t port() const { return port_; }
  void Set(const Faults& faults);
  void SetTarget(std::uint16_t port) { target_ = port; }
  std::uint64_t damaged() const { return damaged_; }  // pieces
  std::uint64_t called() const { return called_; }    // connections

 private:
  struct State;
  void Run();
  Faults faults();

  std::unique_ptr<State> state_;
  std::uint16_t port_ = 0;
  std::atomic<std::uint16_t> target_;
  std::mutex mutex_;
  Faults faults_;
  std::atomic<std::uint64_t> damaged_{0}, called_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

std::uint16_t FreePort();  // of loopback; free a moment ago

}  // namespace ncclwatch::testing
