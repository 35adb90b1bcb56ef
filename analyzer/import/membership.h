// Who is in which process group, from all dumps together: a dump tells the ranks of a group only once its own rank has
// made the group's communicator, and gloo's tell them not at all.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "analyzer/import/dump.h"

namespace ncclwatch::analyzer::import {

struct Group {
  std::uint64_t id = 0;
  std::string label;
  std::shared_ptr<const std::vector<std::int32_t>> ranks;  // job ranks by rank in the group
  bool guessed = false;                                    // those that have entries in it
};

class Membership {
 public:
  explicit Membership(const std::vector<Dump>& dumps);
  const Group& Of(const Dump& dump, const ProcessGroup& group) const;
  const std::vector<Group>& groups() const { return groups_; }
  // Of the group of the whole job, 0 if no dump tells.
  std::int32_t world_size() const { return world_size_; }

 private:
  std::size_t Place(const ProcessGroup& group, const std::vector<std::int32_t>& ranks);

  std::vector<Group> groups_;
  absl::flat_hash_map<std::pair<std::string, std::vector<std::int32_t>>, std::size_t> place_of_;  // by name and ranks
  absl::flat_hash_map<std::pair<std::string, std::int32_t>, std::size_t> told_;    // by name and a member
  absl::flat_hash_map<std::pair<std::string, std::string>, std::size_t> guessed_;  // by name and description
  std::int32_t world_size_ = 0;
};

}  // namespace ncclwatch::analyzer::import
