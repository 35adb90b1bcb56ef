#include "tests/jobs/simulator/topology.h"

#include <algorithm>

#include "simulation/chance.h"

namespace ncclwatch::jobs {
namespace {

struct Entry {
  const char* name;
  std::unique_ptr<Topology> (*make)(Job* job, std::uint64_t seed);
};
constexpr Entry kTopologies[] = {
    {"data", MakeDataParallel},       {"tensor", MakeTensorParallel},     {"pipeline", MakePipeline},
    {"interleaved", MakeInterleaved}, {"context", MakeContextParallel},   {"expert", MakeExpertParallel},
    {"sharded", MakeSharded},         {"hierarchical", MakeHierarchical}, {"mixed", MakeMixed},
};

constexpr Entry kPeerTopologies[] = {
    {"ring", MakeRing}, {"halo", MakeHalo}, {"stages", MakeStages}, {"all_to_all", MakeAllToAll}};

const Entry* EntryOf(const std::string& name) {
  for (const Entry& entry : kTopologies)
    if (name == entry.name) return &entry;
  for (const Entry& entry : kPeerTopologies)
    if (name == entry.name) return &entry;
  return nullptr;
}

std::vector<int> Everybody(int ranks) {
  std::vector<int> all(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) all[static_cast<std::size_t>(rank)] = rank;
  return all;
}

}  // namespace

const std::vector<std::string>& TopologyNames() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Entry& entry : kTopologies) all.emplace_back(entry.name);
    return all;
  }();
  return names;
}

const std::vector<std::string>& PeerTopologyNames() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Entry& entry : kPeerTopologies) all.emplace_back(entry.name);
    return all;
  }();
  return names;
}

std::vector<std::vector<int>> Blocks(int ranks, int size) {
  std::vector<std::vector<int>> groups(static_cast<std::size_t>(ranks / size));
  for (int rank = 0; rank < ranks; ++rank) groups[static_cast<std::size_t>(rank / size)].push_back(rank);
  return groups;
}

std::vector<std::vector<int>> Strides(int ranks, int size) {
  const int stride = ranks / size;
  std::vector<std::vector<int>> groups(static_cast<std::size_t>(stride));
  for (int rank = 0; rank < ranks; ++rank) groups[static_cast<std::size_t>(rank % stride)].push_back(rank);
  return groups;
}

int GroupSize(int ranks, std::uint64_t seed) {
  constexpr int kSizes[] = {2, 4, 8};
  int size = kSizes[Chance(seed).Bits(0x512e) % 3];
  while (size > 2 && (ranks / size < 2 || ranks % size != 0)) size /= 2;
  return size;
}

bool MakeHealthy(const Shape& shape, Job* job) {
  const Entry* entry = EntryOf(shape.topology);
  if (entry == nullptr || shape.ranks < 4 || shape.ranks % 4 != 0) return false;
  Dice dice(shape.seed, 0x10b);
  job->shape = shape;
  job->ranks = shape.ranks;
  job->seed = shape.seed;
  constexpr int kFew[] = {3, 5, 8}, kMany[] = {3, 6, 12, 40};
  job->steps = shape.ranks > 64 ? dice.Of(kFew, 3) : dice.Of(kMany, 4);
  if (shape.steps > 0) job->steps = shape.steps;
  job->per_node = shape.ranks <= 8 ? 4 : 8;
  job->by_split = dice.OneIn(2);
  job->exchanges = dice.OneIn(4);
  // Of a protocol that keeps nothing back, of LL, and of Simple: steps x step size of a channel.
  constexpr std::uint64_t kEager[] = {0, 16384, 4 << 20};
  job->eager = dice.Of(kEager, 3);
  job->jitter = 0.05 + 0.3 * dice.Unit();
  job->ring = dice.OneIn(2) ? 256 : 1024;
  job->comms_of.resize(static_cast<std::size_t>(shape.ranks));
  job->Add({.members = Everybody(shape.ranks), .label = "world"});
  job->topology = entry->make(job, shape.seed);
  return true;
}

}  // namespace ncclwatch::jobs
