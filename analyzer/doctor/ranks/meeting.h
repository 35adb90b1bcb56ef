// The ranks of a job meet at rank 0, which asks them to try one another and puts their reports together.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/doctor/ranks/line_socket.h"
#include "watchdog/rundir/launcher.h"

namespace ncclwatch::doctor {

// One rank tried to reach another.
struct Attempt {
  int from = 0, to = 0;
  std::string error;  // empty: it went well
  double round_trip_s = 0, bytes_per_s = 0;
  std::vector<std::pair<std::size_t, double>> ladder;  // bytes, round trip in seconds; of --active
};

struct RankReport {
  int rank = 0;
  std::string host;
  Json report;                // results and facts, as the rank has sent them
  double clock_ahead_s = 0;   // of rank 0's clock, give or take clock_error_s
  double clock_error_s = -1;  // negative: not measured
};

struct Gathered {
  std::vector<RankReport> ranks;  // that came, ascending
  std::vector<int> missing;
  std::vector<Attempt> attempts;  // between hosts
  std::string where;              // rank 0 listened, "gpu17:23456 (MASTER_ADDR)"
  std::string why_not;            // nobody could be met; empty otherwise
};

struct MeetingPlace {
  std::vector<std::string> hosts;
  std::vector<std::uint16_t> ports;
  std::string source;
  std::string secret;  // tells this job's ranks from strangers
};
MeetingPlace PlaceOf(const rundir::Lookup& lookup, const std::string& named);  // `named`: HOST:PORT, or empty

// Rank 0. `own` is its report; `active`: also bandwidth.
Gathered GatherRanks(const MeetingPlace& place, const rundir::Place& ranks, Json own, bool active,
                     std::int64_t wait_ns);
// Any other rank: false and a reason where it did not reach rank 0.
bool ReportToRank0(const MeetingPlace& place, const rundir::Place& ranks, const Json& own, std::int64_t wait_ns,
                   std::string* why);

}  // namespace ncclwatch::doctor
