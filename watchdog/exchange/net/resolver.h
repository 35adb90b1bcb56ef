// Names to numbers, without ever waiting: numbers and /etc/hosts at once, the rest by a thread that asks the resolver
// of the C library, which may take half a minute.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "watchdog/exchange/net/endpoint.h"

namespace ncclwatch::exchange {

class Resolver {
 public:
  explicit Resolver(std::vector<std::string> hosts) : hosts_(std::move(hosts)) {}

  // Looks after what is under way and asks (again, after a while) for what is not known. True if something new is.
  bool Tick(std::int64_t now_ns);
  const std::vector<Endpoint>& found() const { return found_; }  // port 0, in the order of the hosts
  // Every name has been looked up at least once, found or not.
  bool settled() const { return settled_; }

 private:
  struct Asked {
    std::vector<std::string> hosts;
    std::vector<Endpoint> found;
    std::atomic<bool> done{false};
  };

  std::vector<std::string> hosts_;
  std::vector<Endpoint> found_;
  std::shared_ptr<Asked> asked_;
  std::int64_t ask_again_ns_ = 0;
  bool settled_ = false;
};

// The numbers that a text in the form of /etc/hosts gives a name.
std::vector<Endpoint> InHostsFile(std::string_view file, std::string_view name);

}  // namespace ncclwatch::exchange
