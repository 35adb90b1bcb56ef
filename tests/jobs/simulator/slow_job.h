// Long jobs that go on: what a rank computes, how long it stops and how fast data pass differ from step to step, as
// chance and one fault will have it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/jobs/simulator/generate.h"

namespace ncclwatch::jobs {

struct SlowShape {
  std::string fault;  // of SlowFaults(); "healthy": none
  std::string like;   // a healthy job of the shape that this fault would have
  int ranks = 8;
  std::uint64_t seed = 1;
};

// What has to be found: one of the kinds, exactly these ranks, from about this step on.
struct SlowAnswer {
  std::vector<std::string> kinds;
  std::vector<int> culprits;
  int onset = -1;  // -1: from the beginning
};
struct SlowTruth {
  std::vector<SlowAnswer> answers;  // in this order; empty: nothing
  std::string story;
};

const std::vector<std::string>& SlowFaults();

int LeafNodes(int ranks);  // how many nodes are behind one leaf switch

// The job, run to its end. False: this fault needs more ranks.
bool GenerateSlow(const SlowShape& shape, Generated* made, SlowTruth* truth);

// A job of about so many seconds as people run them: evaluations, checkpoints of all ranks, sequences of changing
// length, a warm-up, a pause of somebody now and then; and nothing that is to be told.
void GenerateQuiet(int ranks, std::int64_t seconds, std::uint64_t seed, Generated* made);

}  // namespace ncclwatch::jobs
