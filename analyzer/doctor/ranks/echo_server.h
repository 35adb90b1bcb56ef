// Answers ranks of this job that try this one: what they send comes back, or is swallowed and counted.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <thread>

#include "analyzer/doctor/ranks/channel.h"
#include "analyzer/doctor/ranks/door.h"

namespace ncclwatch::doctor {

class EchoServer {
 public:
  explicit EchoServer(const Credentials& credentials);  // which must outlive it
  ~EchoServer();
  std::uint16_t port() const { return door_.port(); }

 private:
  struct Answering {
    std::unique_ptr<Channel> channel;
    std::thread thread;
    std::atomic<bool> done{false};
  };
  void Run();
  void Serve(Arrival arrival);

  Door door_;
  std::atomic<bool> ends_{false};
  std::list<Answering> answering_;  // of thread_
  std::thread thread_;
};

struct Trial {
  std::string error;  // empty: it went well
  double round_trip_s = 0;
  double bytes_per_s = 0;  // 0: not measured
};
// The smallest of a few round trips of `size` bytes; then so many bytes one way.
Trial Try(const std::string& address, std::uint16_t port, const Credentials& credentials, std::uint32_t size,
          std::uint64_t bytes);

}  // namespace ncclwatch::doctor
