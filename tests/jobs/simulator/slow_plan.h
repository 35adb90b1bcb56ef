// What chance and the fault do to single ranks and steps of a slow job.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/jobs/simulator/program.h"

namespace ncclwatch::jobs {

enum class Layout {
  kData,        // one communicator
  kTensor,      // tensor parallel within nodes, data parallel across
  kExperts,     // experts over the ranks of a node, data parallel across
  kLeaves,      // reduced within a node, then among the nodes behind a switch, then among switches
  kPipeline,    // stages over nodes' ranks, 1F1B
  kNeighbours,  // as kLeaves, and messages from each node to the next one
};

struct SlowPlan {
  Layout layout = Layout::kData;
  int steps = 200;
  bool on_host = false;        // the host computes, as without a GPU; else kernels do
  double step_s = 1;           // that the computation takes
  double jitter = 0.05;        // of it, to either side, for each rank and step on its own
  double bucket_share = 0.03;  // of that time, that the gradients are under way
  int per_group = 8;           // ranks that are parallel within a node
  int leaf_nodes = 2;          // nodes behind one switch
  int stages = 4, batches = 8;
  std::uint64_t seed = 1;

  // By rank and step; null: as usual.
  std::function<double(int rank, int step)> compute;                   // so many times as long
  std::function<double(int rank, int step)> pause;                     // the host stops for so many seconds
  std::function<double(const std::vector<int>& ring, int step)> link;  // data between these take so many times as long
  std::function<double(int step)> size;                                // of sequences: computation and activations
  std::function<int(int step)> evaluations;                            // batches without gradients after this step
};

// Fills in the job; the plan's functions are kept in it.
void MakeSlowJob(const SlowPlan& plan, int ranks, int per_node, Job* job);

}  // namespace ncclwatch::jobs
