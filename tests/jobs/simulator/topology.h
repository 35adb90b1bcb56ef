// How jobs are parallel: which communicators they have and what a step does on them.
#pragma once

#include <string>
#include <vector>

#include "tests/jobs/simulator/program.h"

namespace ncclwatch::jobs {

const std::vector<std::string>& TopologyNames();
// Patterns of messages, for `job_matrix peers`.
const std::vector<std::string>& PeerTopologyNames();

// Fills in everything of the job but its fault, from its shape alone. False if the topology is not known or does not
// fit so many ranks.
bool MakeHealthy(const Shape& shape, Job* job);

// The topologies, by family. They add their communicators to the job.
std::unique_ptr<Topology> MakeDataParallel(Job* job, std::uint64_t seed);
std::unique_ptr<Topology> MakeTensorParallel(Job* job, std::uint64_t seed);
std::unique_ptr<Topology> MakeSharded(Job* job, std::uint64_t seed);
std::unique_ptr<Topology> MakeHierarchical(Job* job, std::uint64_t seed);
std::unique_ptr<Topology> MakePipeline(Job* job, std::uint64_t seed);
std::unique_ptr<Topology> MakeInterleaved(Job* job, std::uint64_t seed);
std::unique_ptr<Topology> MakeContextParallel(Job* job, std::uint64_t seed);
std::unique_ptr<Topology> MakeExpertParallel(Job* job, std::uint64_t seed);
std::unique_ptr<Topology> MakeMixed(Job* job, std::uint64_t seed);
std::unique_ptr<Topology> MakeRing(Job* job, std::uint64_t seed);
std::unique_ptr<Topology> MakeHalo(Job* job, std::uint64_t seed);
std::unique_ptr<Topology> MakeStages(Job* job, std::uint64_t seed);
std::unique_ptr<Topology> MakeAllToAll(Job* job, std::uint64_t seed);

// Ranks in groups of `size` neighbours, or of every `ranks / size`-th.
std::vector<std::vector<int>> Blocks(int ranks, int size);
std::vector<std::vector<int>> Strides(int ranks, int size);
// 2, 4 or 8, such that there are at least two groups of so many.
int GroupSize(int ranks, std::uint64_t seed);

}  // namespace ncclwatch::jobs
