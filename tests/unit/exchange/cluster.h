// Leaders of several nodes in one thread: each has its own loop and is driven by hand, so that a test can stop one as
// SIGSTOP would, or drop it as SIGKILL would. Waits for conditions, never for time.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "watchdog/exchange/net/loop.h"
#include "watchdog/exchange/protocol/mailbox.h"
#include "watchdog/exchange/protocol/node.h"
#include "watchdog/exchange/rendezvous/token.h"

namespace ncclwatch::testing {

// Short enough for tests, long enough for two cores that others use too.
exchange::Timing Quick();
exchange::Setup SetupOf(const std::string& node, const std::string& address);

struct Leader {
  explicit Leader(const exchange::Setup& from);
  ~Leader();
  void Drive(std::int64_t wait_ns = 0);
  bool Connected() const { return mailbox.status().connected; }
  bool IsHub() const { return mailbox.status().hub; }
  std::string HubNode() const { return mailbox.status().hub_node; }
  int ConnectedPeers() const;
  // What has come so far, joined and left included; given once.
  std::vector<exchange::Message> Take();

  const exchange::Setup setup;
  exchange::Mailbox mailbox;
  std::unique_ptr<exchange::Loop> loop;
  std::unique_ptr<exchange::Node> node;
  bool stopped = false;
};

class Cluster {
 public:
  Leader& Add(const exchange::Setup& setup);
  void Kill(std::size_t which);  // as SIGKILL: its sockets end, nothing is said
  // Drives all until it holds; false after a minute.
  bool Until(const std::function<bool()>& holds);
  bool UntilAllHave(const std::string& hub);  // all that are driven
  Leader& operator[](std::size_t which) { return *leaders_[which]; }
  int Hubs() const;

 private:
  std::vector<std::unique_ptr<Leader>> leaders_;  // null: killed
};

std::string Name(int number);  // of a node; sorts by number

}  // namespace ncclwatch::testing
