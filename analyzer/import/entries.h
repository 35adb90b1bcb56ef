// The entries of one dump, in order, into the calls of a black box.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <vector>

#include "analyzer/import/dump.h"
#include "analyzer/import/words.h"
#include "core/reader/box.h"

namespace ncclwatch::analyzer::import {

// Where calls were made: of the stacks in a dump the innermost line that is not torch's own, named in the box.

class CallSites {
 public:
  CallSites(const Tree& tree, Words* words, reader::BoxImage* box)
      : tree_(tree), words_(*words), box_(*box), site_of_(tree.size(), kNotLookedAt) {}
  // The number of reader::Call::site; 0 if there is no such line.
  std::uint64_t Of(ValueId frames);

 private:
  static constexpr std::uint32_t kNotLookedAt = UINT32_MAX;

  std::uint32_t LookAt(ValueId frame);

  const Tree& tree_;
  Words& words_;
  reader::BoxImage& box_;
  std::vector<std::uint32_t> site_of_;  // by frame; 0: torch's own
};

class Entries {
 public:
  // `budget`: how many values may be looked at altogether; an input may refer to one of them any number of times.
  Entries(const Tree& tree, Words* words, std::uint64_t budget, Dump* dump);
  void Reserve(std::size_t entries);
  // False once the budget is spent.
  bool Add(ValueId entry);
  void Finish();  // after the last one
  std::uint32_t Group(ValueId name, ValueId description);
  // Of the number that the backend of a group has in this process, by entries; none if there is no entry of it.
  const absl::flat_hash_map<std::int64_t, std::uint32_t>& group_of_pg_id() const { return group_of_pg_id_; }

 private:
  struct Raw;
  enum class Progress : char { kOutstanding, kFinished, kRetired, kUnknown };
  // What a group has begun, and entries of the same number may go on with or end.
  struct Open {
    std::int64_t collective_seq = -1;
    std::int64_t p2p_seq = -1;
    std::size_t collective = 0;  // its call
    std::vector<std::size_t> messages;
    std::size_t newest = 0;  // call
  };

  Raw Take(ValueId entry);
  std::uint64_t Elements(ValueId sizes);
  ScalarType TypeOf(ValueId dtypes);
  std::uint32_t GroupOf(ValueId process_group);
  reader::Call CallOf(const Raw& raw);
  void AddCollective(const Raw& raw);
  void AddMessage(const Raw& raw);
  bool EndsCoalesced(const Raw& raw);
  void Append(const Raw& raw, reader::Call call);
  void Mark(std::size_t call);
  bool Spend(std::uint64_t values);

  const Tree& tree_;
  Words& words_;
  std::uint64_t budget_;
  bool spent_ = false;
  Dump& dump_;
  CallSites sites_;
  std::vector<Open> open_;               // by group
  std::vector<Progress> progress_;       // by call
  std::uint64_t last_key_ = UINT64_MAX;  // of the group asked for last
  std::uint32_t last_group_ = 0;
  absl::flat_hash_map<std::uint64_t, std::uint32_t> group_of_;  // by the words for name and description
  absl::flat_hash_map<std::uint64_t, std::size_t> peer_of_;     // by group and rank: place in the box's peers
  absl::flat_hash_map<std::int64_t, std::uint32_t> group_of_pg_id_;
};

}  // namespace ncclwatch::analyzer::import
