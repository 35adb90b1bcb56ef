// One thread's epoll. Everything of the exchange that has a descriptor is a Source of one Loop and is used by its
// thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "watchdog/exchange/net/descriptors.h"

namespace ncclwatch::exchange {

std::int64_t Now();  // CLOCK_MONOTONIC, ns

class Source {
 public:
  virtual ~Source() = default;
  virtual void Ready(std::uint32_t events) = 0;  // of epoll
  virtual void Flush() {}                        // asked for by FlushLater
};

class Loop {
 public:
  static std::unique_ptr<Loop> Make(const Descriptors& descriptors);  // null: no descriptor left
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  Descriptors& descriptors() { return descriptors_; }

  // One descriptor for a source at a time. Forget before it is closed.
  bool Watch(int fd, std::uint32_t events, Source* source);
  void Change(int fd, std::uint32_t events, Source* source);
  void Forget(int fd, Source* source);
  void FlushLater(Source* source);
  // Destroys a source, which must be forgotten, once nothing of it is on the stack.
  void DeferDelete(std::unique_ptr<Source> source);

  // Flushes, waits for at most so long, and lets sources do what they are ready for.
  void Wait(std::int64_t most_ns);

  std::size_t buffered = 0;  // bytes that all connections together hold of frames that are not whole yet

 private:
  Loop(const Descriptors& descriptors, int epoll) : descriptors_(descriptors), epoll_(epoll) {}
  void FlushAll();

  Descriptors descriptors_;
  int epoll_;
  std::vector<Source*> batch_;  // of this Wait; null where it was forgotten meanwhile
  std::vector<Source*> to_flush_;
  std::vector<std::unique_ptr<Source>> buried_;
};

}  // namespace ncclwatch::exchange
