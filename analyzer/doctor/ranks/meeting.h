// The ranks of a job meet at rank 0, which asks them to try one another and puts their reports together.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/doctor/ranks/meeting_place.h"
#include "analyzer/doctor/ranks/messages.h"
#include "watchdog/rundir/launcher.h"

namespace ncclwatch::doctor {

struct RankReport {
  int rank = 0;
  std::string host;
  Report report;
  bool guessable = false;     // it has proved nothing better than a token that others can guess
  double clock_ahead_s = 0;   // of rank 0's clock, give or take clock_error_s
  double clock_error_s = -1;  // negative: not measured
};

struct Gathered {
  std::vector<RankReport> ranks;  // that came, ascending
  std::vector<int> missing;
  std::vector<int> lost;          // came, and then stopped answering
  std::vector<Attempt> attempts;  // between hosts
  std::size_t strangers = 0;      // connections that did not prove the token
  std::string where;              // rank 0 listened, "gpu17:23456 (MASTER_ADDR)"
  std::string why_not;            // nobody could be met; empty otherwise
};

// Rank 0. `own` is its report; `active`: also bandwidth.
Gathered GatherRanks(const MeetingPlace& place, const rundir::Place& ranks, Report own, bool active,
                     std::int64_t wait_ns);
// Any other rank: false and a reason where it did not reach rank 0.
bool ReportToRank0(const MeetingPlace& place, const rundir::Place& ranks, Report own, std::int64_t wait_ns,
                   std::string* why);

}  // namespace ncclwatch::doctor
