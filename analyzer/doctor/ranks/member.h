// One rank, as rank 0 asks it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "analyzer/doctor/ranks/channel.h"

namespace ncclwatch::doctor {

struct Member {
  std::unique_ptr<Channel> channel;  // null: rank 0 itself, or one that is lost
  int rank = 0;
  std::string host, address;
  std::uint16_t port = 0;
  Report report;
  bool guessable = false, lost = false;
};

double RealNow();
// An address for others: that of NCCLWATCH_BIND, else an interface's. Empty: as the peer sees it.
std::string OwnAddress(const settings::BindAddress& bind);
// What rank 0 asked for.
std::vector<Attempt> TryAll(const TryRequest& request, const Credentials& credentials, int from);

}  // namespace ncclwatch::doctor
