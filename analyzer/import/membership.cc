#include "analyzer/import/membership.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "ncclwatch/format/fingerprint.h"
#include "watchdog/reader/layout.h"

namespace ncclwatch::analyzer::import {
namespace {

constexpr char kWholeJob[] = "default_pg";  // torch's description of the first group

// Equal on every rank; never 0, which means none.
std::uint64_t IdOf(const std::string& name, const std::vector<std::int32_t>& ranks) {
  std::uint64_t id = ranks.size();
  for (const char letter : name) id = format::Mix(id, static_cast<unsigned char>(letter));
  for (const std::int32_t rank : ranks) id = format::Mix(id, static_cast<std::uint32_t>(rank));
  return id == 0 ? 1 : id;
}

std::string LabelOf(const ProcessGroup& group) {
  const bool described = !group.description.empty() && group.description != "undefined";
  return described ? group.name + ":" + group.description : group.name;
}

}  // namespace

Membership::Membership(const std::vector<Dump>& dumps) {
  std::int32_t highest = -1;
  std::map<std::pair<std::string, std::string>, std::vector<std::int32_t>> users;
  for (const Dump& dump : dumps) {
    highest = std::max(highest, dump.rank);
    for (const ProcessGroup& group : dump.groups) {
      if (!group.ranks.empty()) Place(group, group.ranks);
      if (!group.ranks.empty() && group.description == kWholeJob)
        world_size_ = std::max(world_size_, static_cast<std::int32_t>(group.ranks.size()));
    }
  }
  for (const Dump& dump : dumps) {
    for (const ProcessGroup& group : dump.groups) {
      if (group.ranks.empty() && !told_.contains({group.name, dump.rank}))
        users[{group.name, group.description}].push_back(dump.rank);
    }
  }
  if (world_size_ == 0 && highest < static_cast<std::int32_t>(reader::kMaxCommunicatorSize)) world_size_ = highest + 1;
  for (auto& [key, ranks] : users) {
    if (key.second == kWholeJob) {
      ranks.resize(static_cast<std::size_t>(world_size_));
      std::iota(ranks.begin(), ranks.end(), 0);
    }
    std::sort(ranks.begin(), ranks.end());
    ProcessGroup group;
    group.name = key.first;
    group.description = key.second;
    const std::size_t place = Place(group, ranks);
    groups_[place].guessed = true;
    guessed_[key] = place;
  }
}

std::size_t Membership::Place(const ProcessGroup& group, const std::vector<std::int32_t>& ranks) {
  const auto [found, fresh] = place_of_.try_emplace({group.name, ranks}, groups_.size());
  if (!fresh) return found->second;
  Group made;
  made.id = IdOf(group.name, ranks);
  made.label = LabelOf(group);
  made.ranks = std::make_shared<const std::vector<std::int32_t>>(ranks);
  groups_.push_back(std::move(made));
  for (const std::int32_t rank : ranks) told_.try_emplace({group.name, rank}, found->second);
  return found->second;
}

const Group& Membership::Of(const Dump& dump, const ProcessGroup& group) const {
  if (!group.ranks.empty()) return groups_[place_of_.at({group.name, group.ranks})];
  const auto told = told_.find({group.name, dump.rank});
  return groups_[told != told_.end() ? told->second : guessed_.at({group.name, group.description})];
}

}  // namespace ncclwatch::analyzer::import
